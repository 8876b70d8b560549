"""Native envs for Stable-Baselines3: its `VecEnv` over a runner. Needs `pip install 'hotloop[sb3]'`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from hotloop.make import make_vec

if TYPE_CHECKING:
    import gymnasium

    Indices = int | Iterable[int] | None


class SB3VecEnv(VecEnv):
    """Native envs as an SB3 `VecEnv`: finished envs are reset in the same step, and infos are a list of dicts.

    A finished episode's info has `terminal_observation`, `TimeLimit.truncated` and `episode` (what SB3's Monitor would
    put there). Envs with masks offer `action_masks` to `env_method`, as sb3-contrib's MaskablePPO asks for it; other
    algorithms need an env whose actions are all legal (`options={"masked": False}` for taxi).

    Args:
        env: The name of a native env with one seat.
        num_envs: How many envs.
        num_threads: How many threads step them.
        options: The env's options that differ from their defaults.

    Examples:
        model = PPO("MlpPolicy", SB3VecEnv("cartpole", num_envs=64))
    """

    def __init__(
        self, env: str, num_envs: int = 1, *, num_threads: int | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self.runner = make_vec(
            env, num_envs, num_threads=num_threads, options=options, autoreset_mode=AutoresetMode.SAME_STEP
        )
        if self.runner.seats != 1:
            seats = self.runner.seats
            self.runner.close()
            raise ValueError(f"{env} has {seats} seats under these options: Stable-Baselines3 knows envs with one")
        self._actions: NDArray[Any] | None = None
        self._masks: NDArray[np.int8] | None = None
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        self._start = time.time()
        super().__init__(num_envs, self.runner.single_observation_space, self.runner.single_action_space)

    def reset(self) -> NDArray[Any]:
        """Reset every env, with the seeds and options that were set before."""
        for env, options in enumerate(self._options):
            if options:
                self.runner.configure(options, [env])
        seeded = any(seed is not None for seed in self._seeds)
        obs, info = self.runner.reset(seed=self._seeds if seeded else None)
        self._reset_seeds()
        self._reset_options()
        self._masks = info.get("action_mask")
        self._returns[:] = 0
        self._lengths[:] = 0
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return obs

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions of the next step."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step every env."""
        if self._actions is None:
            raise RuntimeError("step_wait needs the actions of step_async")
        actions, self._actions = self._actions, None
        obs, reward, terminated, truncated, info = self.runner.step(actions)
        self._masks = info.get("action_mask")
        self._returns += reward
        self._lengths += 1
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for env in np.flatnonzero(done).tolist():
            infos[env] = {
                "terminal_observation": info["final_obs"][env],
                "TimeLimit.truncated": bool(truncated[env] and not terminated[env]),
                "episode": {
                    "r": round(float(self._returns[env]), 6),
                    "l": int(self._lengths[env]),
                    "t": round(time.time() - self._start, 6),
                },
            }
        self._returns[done] = 0
        self._lengths[done] = 0
        return obs, reward, done, infos

    def close(self) -> None:
        """Stop the runner's threads."""
        self.runner.close()

    def _action_masks(self, env: int) -> NDArray[np.bool_]:
        if self._masks is None:
            raise RuntimeError("action masks are there after reset")
        mask: NDArray[np.bool_] = self._masks[env].astype(np.bool_)
        return mask

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of each env: `action_masks` where the env has masks, else the runner's attributes."""
        envs = list(self._get_indices(indices))
        if attr_name == "action_masks":
            if not self.runner.masked:
                raise AttributeError(f"{self.runner.name} has no action masks")
            return [partial(self._action_masks, env) for env in envs]
        return [getattr(self.runner, attr_name)] * len(envs)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Raise: envs are changed through their options only."""
        raise AttributeError(f"native envs have no attributes to set ({attr_name!r}): use set_options and reset")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each env; `action_masks` is the only one."""
        if method_name != "action_masks":
            raise AttributeError(f"native envs have no method {method_name!r}")
        return [masks(*method_args, **method_kwargs) for masks in self.get_attr(method_name, indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """Return false: native envs have no wrappers (infos include the entries that Monitor adds)."""
        return [False] * len(list(self._get_indices(indices)))

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        """Return none: rendering is not supported here."""
        return [None] * self.num_envs
