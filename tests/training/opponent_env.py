"""A PettingZoo-like env of two agents for worker processes."""

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces


class Two:
    """Two agents act for five steps; the second one earns four times as much."""

    metadata: ClassVar[dict[str, Any]] = {}
    possible_agents = ("a", "b")
    agents: tuple[str, ...] = ()

    def observation_space(self, agent: str) -> spaces.Box:
        return spaces.Box(0, 1, (1,))

    def action_space(self, agent: str) -> spaces.Discrete[Any]:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents, self._steps = self.possible_agents, 0
        return {agent: np.zeros(1, np.float32) for agent in "ab"}, {"a": {}, "b": {}}

    def step(self, actions: dict[str, Any]) -> Any:
        self._steps += 1
        over = self._steps == 5
        self.agents = () if over else self.possible_agents
        obs = {agent: np.zeros(1, np.float32) for agent in "ab"}
        return obs, {"a": 1.0, "b": 4.0}, dict.fromkeys("ab", over), dict.fromkeys("ab", False), {"a": {}, "b": {}}

    def close(self) -> None:
        pass
