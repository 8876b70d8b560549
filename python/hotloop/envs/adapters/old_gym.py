"""Envs with the interface of Gym before 0.26: `reset()` returns the observation alone, `step` four values."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from hotloop.errors import EnvOutputError, SpaceError


def modern(env: Any) -> tuple[Any, dict[str, Any]]:
    """Return the env with Gymnasium's interface, and the info of a first reset."""
    if not isinstance(env.observation_space, spaces.Space) or not _takes_seed(env):
        env = OldGymEnv(env)
    result = env.reset(seed=0)
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        env = OldGymEnv(env)
        result = env.reset(seed=0)
    return env, result[1]


def _takes_seed(env: Any) -> bool:
    try:
        parameters = inspect.signature(env.reset).parameters
    except (TypeError, ValueError):  # not written in Python
        return True
    return "seed" in parameters or any(found.kind is found.VAR_KEYWORD for found in parameters.values())


class OldGymEnv(gymnasium.Env[Any, Any]):
    """An env of old Gym; `info["TimeLimit.truncated"]` tells ends by a time limit apart."""

    def __init__(self, env: Any) -> None:
        self.old = env
        self._seeded_by_reset = _takes_seed(env)
        self.observation_space = converted(env.observation_space)
        self.action_space = converted(env.action_space)
        self.metadata = getattr(env, "metadata", None) or {}
        self.render_mode = getattr(env, "render_mode", None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; old envs take no options."""
        super().reset(seed=seed)
        if seed is not None and not self._seeded_by_reset and callable(seeding := getattr(self.old, "seed", None)):
            seeding(seed)
        return (self.old.reset(seed=seed) if self._seeded_by_reset else self.old.reset()), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        """Take one action."""
        result = self.old.step(action)
        if len(result) == 5:
            return tuple(result)
        if len(result) != 4:
            raise EnvOutputError(f"step returned {len(result)} values: expected 4 (old Gym) or 5 (Gymnasium)")
        obs, reward, done, info = result
        truncated = bool(done) and bool(info.get("TimeLimit.truncated", False))
        return obs, reward, bool(done) and not truncated, truncated, info

    def render(self) -> Any:
        """Render as the env does."""
        return self.old.render()

    def close(self) -> None:
        """Close the env."""
        if callable(close := getattr(self.old, "close", None)):
            close()

    def __getattr__(self, name: str) -> Any:
        # `get_state`, `action_masks` and the like are the env's.
        if name == "old":
            raise AttributeError(name)
        return getattr(self.old, name)


def converted(space: Any) -> spaces.Space[Any]:
    """Return Gymnasium's space for one of old Gym, which has classes of the same names."""
    if isinstance(space, spaces.Space):
        return space
    match type(space).__name__:
        case "Box":
            return spaces.Box(space.low, space.high, space.shape, np.dtype(space.dtype).type)
        case "Discrete":
            return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
        case "MultiDiscrete":
            return spaces.MultiDiscrete(space.nvec)
        case "MultiBinary":
            return spaces.MultiBinary(space.n)
        case "Dict":
            return spaces.Dict({key: converted(part) for key, part in space.spaces.items()})
        case "Tuple":
            return spaces.Tuple([converted(part) for part in space.spaces])
    raise SpaceError(f"the space is {space!r}: expected one of Gymnasium's spaces")
