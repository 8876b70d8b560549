"""Envs whose actions have discrete and continuous parts; the best reward needs both."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

REACH = 50.0


class Archery(gymnasium.Env[Any, Any]):
    """One of three targets is lit: choose its lane, an arrow that is left, and aim at its position.

    The reward is 1 for the right lane, less the distance of the aim. With `masked` one arrow is used up in every
    episode, and choosing it raises.
    """

    observation_space = spaces.Dict({"lane": spaces.Discrete(3), "position": spaces.Box(-1.0, 1.0, (1,), np.float32)})
    action_space = spaces.Dict(
        {
            "aim": spaces.Box(-REACH, REACH, (1,), np.float64),
            "arrow": spaces.MultiBinary(1),
            "lane": spaces.Discrete(3, start=1),
        }
    )

    def __init__(self, masked: bool = False) -> None:
        self._masked = masked

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._lane = int(self.np_random.integers(3))
        self._position = float(self.np_random.uniform(-0.8, 0.8))
        self._used = int(self.np_random.integers(2))
        # In the order of the space, which Gymnasium sorts by key: arrow, then lane.
        mask = np.array([self._used != 0, self._used != 1, True, True, True], np.int8)
        obs = {"lane": self._lane, "position": np.array([self._position], np.float32)}
        return obs, {"action_mask": mask} if self._masked else {}

    def step(self, action: dict[str, Any]) -> Any:
        assert self.action_space.contains(action), action
        if self._masked and int(action["arrow"][0]) == self._used:
            raise ValueError("this arrow is used up")
        distance = abs(float(action["aim"][0]) / REACH - self._position)
        reward = float(action["lane"] - 1 == self._lane) - distance
        obs, info = self.reset()
        return obs, reward, True, False, info


class Archers:
    """The same for two agents at once, with PettingZoo's parallel interface and Tuple actions."""

    metadata: ClassVar[dict[str, Any]] = {"name": "archers"}
    possible_agents: ClassVar[list[str]] = ["left", "right"]

    def __init__(self) -> None:
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-1.0, 1.0, (2,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Tuple((spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Discrete(2)))

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._goals = {agent: self._random.uniform(-1, 1, 2).astype(np.float32) for agent in self.agents}
        return dict(self._goals), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        rewards = {}
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action), action
            side, goal = self._goals[agent]
            rewards[agent] = float(action[1] == (side > 0)) - abs(float(action[0][0] - goal))
        ends = dict.fromkeys(actions, True)
        obs: dict[str, NDArray[np.float32]] = dict(self._goals)
        self.agents = []
        return obs, rewards, ends, dict.fromkeys(actions, False), {agent: {} for agent in actions}

    def close(self) -> None:
        pass
