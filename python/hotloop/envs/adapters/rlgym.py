"""RLGym 2 envs: a row for each agent. The common forms of spaces are supported."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from hotloop.envs.adapters.rows import number
from hotloop.envs.adapters.seats import Seats
from hotloop.errors import SpaceError


def _space(given: Any) -> spaces.Space[Any]:
    """`("real", 89)`, `("discrete", 90)`, or a space of Gymnasium."""
    if isinstance(given, spaces.Space):
        return given
    kind, size = given if isinstance(given, tuple) and len(given) == 2 else (None, given)
    if kind in ("discrete", None) and isinstance(size, int):
        return spaces.Discrete(size)
    if kind in ("real", "continuous") and isinstance(size, int | tuple):
        bound = 1.0 if kind == "continuous" else np.inf
        return spaces.Box(-bound, bound, (size,) if isinstance(size, int) else size, np.float32)
    if kind == "multi-discrete" or (kind == "discrete" and isinstance(size, list | tuple)):
        return spaces.MultiDiscrete(list(size))
    raise SpaceError(f"an RLGym space is {given!r}: expected ('real', N), ('discrete', N) or a space of Gymnasium")


class RLGymEnv(Seats):
    """All agents of one env; actions are passed as arrays, as lookup tables expect them."""

    def __init__(self, env: Any) -> None:
        self._env = self.env = env
        env.reset()
        agents = list(env.agents)
        super().__init__(
            agents,
            [_space(env.observation_space(agent)) for agent in agents],
            [_space(env.action_space(agent)) for agent in agents],
        )
        self._over = np.zeros(len(agents), np.bool_)

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start an episode. RLGym has no seeds, so the generators of NumPy and Python are seeded."""
        if seed is not None:
            import random

            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002 - what RLGym's own mutators draw from
        obs = self._env.reset()
        self._over[:] = False
        for seat, agent in enumerate(self.agents):
            self.show(seat, obs[agent], {})
        self.rows.valid[:] = True

    def step(self, actions: Any) -> bool:
        """Step all agents."""
        actions_by_agent = {
            agent: np.atleast_1d(np.asarray(self.decode(seat, action)))
            for seat, (agent, action) in enumerate(zip(self.agents, actions, strict=True))
        }
        obs, rewards, terminated, truncated = self._env.step(actions_by_agent)
        rows = self.rows
        for seat, agent in enumerate(self.agents):
            rows.reward[seat] = number(rewards[agent])
            if not self._over[seat]:
                rows.terminated[seat] = bool(terminated[agent])
                rows.truncated[seat] = bool(truncated[agent]) and not rows.terminated[seat]
                self._over[seat] = rows.terminated[seat] or rows.truncated[seat]
            self.show(seat, obs[agent], {})
            rows.valid[seat] = not self._over[seat]
        return bool(self._over.all())

    def close(self) -> None:
        """Close the env."""
        self._env.close()
