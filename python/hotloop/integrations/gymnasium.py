"""A native env as a `gymnasium.Env`, as `gymnasium.make("hotloop/...")` returns it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hotloop import _core
from hotloop.envs.scene import scenes
from hotloop.envs.spaces import LegalDiscrete, action_space, observation_space
from hotloop.envs.spec import DiscreteAction, DiscreteObservation, native_spec
from hotloop.rendering import MODES, as_picture, as_text, check_mode, pace


class NativeEnv(gymnasium.Env[Any, Any]):
    """A single native env; for many at once `hotloop.make_vec` is thousands of times faster.

    Where the env has action masks, an illegal action raises; `action_space.sample()` returns legal ones.

    Args:
        native_name: The env's name in `hotloop.list_envs()`.
        render_mode: `"ansi"` for text, `"rgb_array"` for pictures (which need the extra `video`), or none.
        options: The env's options that differ from their defaults.
    """

    metadata = {"render_modes": list(MODES)}  # noqa: RUF012 - Gymnasium's own way

    def __init__(self, native_name: str, render_mode: str | None = None, **options: Any) -> None:
        check_mode(native_name, render_mode)
        spec = native_spec(native_name, options)
        if spec.seats != 1:
            raise ValueError(
                f"{native_name} has {spec.seats} seats and does not fit gymnasium.make: "
                f"use gymnasium.make_vec or hotloop.make_vec({native_name!r}), which have a row for each"
            )
        self._infos: Final = [name for name, _ in spec.infos]
        self._lengths: Final = [length for _, length in spec.infos]
        self._pool = _core.Pool(native_name, 1, num_threads=1, options=options, autoreset="disabled", infos=self._infos)
        self.observation_space = observation_space(spec.observation)
        self._legal = LegalDiscrete(spec.action.outputs) if spec.masked else None
        self.action_space = self._legal or action_space(spec.action)
        self._number = isinstance(spec.observation, DiscreteObservation)
        self._choice = np.zeros(1, np.int64) if isinstance(spec.action, DiscreteAction) else None
        self._seeded = False
        self._name: Final = native_name
        self._taken: NDArray[Any] | None = None
        self.render_mode = render_mode
        self.metadata = {"render_modes": list(MODES), "render_fps": pace(native_name)}

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; env options that are given here stay in effect."""
        super().reset(seed=seed)
        if options:
            self._pool.configure(dict(options))
        if seed is not None:
            self._pool.seed(seed)
        elif not self._seeded:
            self._pool.seed(int(self.np_random.integers(2**63)))
        self._seeded = True
        self._taken = None
        obs, info = self._pool.reset()
        return self._observation(obs), self._info(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one action; after the end of an episode call `reset` first."""
        actions: NDArray[Any]
        if self._choice is None:
            actions = np.asarray(action)[None]
        else:
            actions = self._choice
            actions[0] = operator.index(action)
        obs, reward, terminated, truncated, info = self._pool.step(actions)
        if self.render_mode is not None:
            self._taken = actions.copy()
        return self._observation(obs), float(reward[0]), bool(terminated[0]), bool(truncated[0]), self._info(info)

    def render(self) -> Any:
        """Return the current state as text or as an array of height, width and RGB, depending on `render_mode`."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() shows nothing: give render_mode='rgb_array' or 'ansi' to gymnasium.make")
            return None
        if not self._seeded:
            raise gymnasium.error.ResetNeeded("there is nothing to render before the first reset()")
        (scene,) = scenes(self._name, self._pool, self._pool.options(), self._taken)
        return as_text(scene) if self.render_mode == "ansi" else as_picture(scene)

    def _observation(self, obs: NDArray[Any]) -> Any:
        return int(obs[0]) if self._number else obs[0]

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        entries = {name: values[0] for name, values in info.items() if name != "infos"}
        if self._legal is not None:
            self._legal.legal = entries["action_mask"]
        start = 0
        for name, length in zip(self._infos, self._lengths, strict=True):
            values = info["infos"][0, start : start + length]
            entries[name] = float(values[0]) if length == 1 else values
            start += length
        return entries

    def close(self) -> None:
        """Free the env; may be called more than once."""
        self._pool.close()
