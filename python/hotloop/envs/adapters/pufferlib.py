"""Vector envs in PufferLib's style: one object with many agents, each of which ends and restarts independently.

No last observation of an episode is given, so the end by a time limit counts as an end of the task.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from hotloop.envs.adapters.seats import Seats
from hotloop.errors import EnvOutputError, SpaceError


class PufferEnv(Seats):
    """All agents of one such env; its episodes are those of its rows."""

    def __init__(self, env: Any) -> None:
        self._env = self.env = env
        count = int(env.num_agents)
        action = env.single_action_space
        seen = [env.single_observation_space] * count
        super().__init__(list(range(count)), seen, [action] * count, independent=True)
        if not self._flat.plain and self._flat.shape:
            raise SpaceError(f"the observation space {env.single_observation_space} is not a Box, as PufferLib has it")
        if not isinstance(action, spaces.Discrete | spaces.MultiDiscrete | spaces.Box):
            raise SpaceError(f"the action space {action} is none of Discrete, MultiDiscrete, Box, as PufferLib has it")
        if isinstance(action, spaces.Box):
            self._first, self._dtype = np.zeros(1), action.dtype
        else:
            # PufferLib's own envs copy choices into an array of this type.
            self._first, self._dtype = np.asarray(action.start), np.dtype(np.int32)
        self._shape = (count, *(action.shape or ()))
        self._seen: Any = None

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start the episodes, or continue those that the env started itself."""
        if seed is not None or self._seen is None:
            self._seen, _ = self._env.reset(seed=seed or 0)
        self._look(self._seen)

    def step(self, actions: Any) -> bool:
        """Step all agents."""
        decided = actions.reshape(self._shape)
        shifted = decided + self._first if self._first.any() else decided
        obs, rewards, terminals, truncations, _ = self._env.step(shifted.astype(self._dtype))
        self.rows.reward[:] = _numbers(rewards)
        self.rows.terminated[:] = np.asarray(terminals, bool) | np.asarray(truncations, bool)
        self._seen = obs
        self._look(obs)
        return False

    def _look(self, obs: Any) -> None:
        rows = self.rows
        seen = np.asarray(obs)
        if seen.shape != rows.obs.shape:
            raise EnvOutputError(f"the env's observations have shape {seen.shape}: expected {rows.obs.shape}")
        if not np.can_cast(seen.dtype, rows.obs.dtype, "same_kind"):
            raise EnvOutputError(f"the env's observations have dtype {seen.dtype}: its space is {self._flat.space}")
        rows.obs[...] = seen
        rows.valid[:] = getattr(self._env, "masks", True)
        rows.info_given.fill(False)

    def close(self) -> None:
        """Close the env."""
        self._env.close()


def _numbers(rewards: Any) -> Any:
    given = np.asarray(rewards)
    if given.dtype.kind not in "fiub":
        raise EnvOutputError(f"the env's rewards are {rewards!r:.200}: expected numbers")
    return given
