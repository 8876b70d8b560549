"""Envs in PufferLib's style, MettaGrid's among them: one object with many agents, which starts anew by itself.

Such an env gives no last observation of an episode, so the end by a time limit counts as an end of the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.envs.adapters.rows import number
from hotloop.envs.adapters.seats import Seats

if TYPE_CHECKING:
    from collections.abc import Mapping


class PufferEnv(Seats):
    """All agents of one such env."""

    def __init__(self, env: Any) -> None:
        self._env = self.env = env
        count = int(env.num_agents)
        super().__init__(list(range(count)), [env.single_observation_space] * count, [env.single_action_space] * count)
        dtype = getattr(env.single_action_space, "dtype", np.int32)
        self._dtype = np.dtype(dtype)
        self._fresh: Any = None

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Goes on with the episode that the env has begun by itself, or seeds it anew."""
        if seed is not None or self._fresh is None:
            self._fresh, _ = self._env.reset(seed=seed or 0)
        self._look(self._fresh)

    def step(self, actions: Any) -> bool:
        """Plays the actions of all agents."""
        told = np.array([self.action.unflatten(action) for action in actions], self._dtype)
        obs, rewards, terminals, truncations, _ = self._env.step(told)
        ends = np.asarray(terminals, bool) | np.asarray(truncations, bool)
        self.rows.reward[:] = [number(reward) for reward in np.asarray(rewards).tolist()]
        self.rows.terminated[:] = ends
        self._fresh = obs
        self._look(obs)
        return bool(ends.all())

    def _look(self, obs: Any) -> None:
        for seat in self.agents:
            self.show(seat, obs[seat], _NOTHING)
        self.rows.valid[:] = True

    def close(self) -> None:
        """Closes the env."""
        self._env.close()


_NOTHING: Mapping[str, Any] = {}
