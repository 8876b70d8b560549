"""A Gymnasium env as one row."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.envs.adapters.old_gym import modern
from hotloop.envs.adapters.packages import gymnasium_spec
from hotloop.envs.adapters.rows import ObservationWriter, Rows, chain, number, write_infos, write_mask, write_metrics
from hotloop.envs.adapters.wrappers import StatefulWrapper
from hotloop.envs.flatten import FlatAction, FlatObservation
from hotloop.envs.spec import EnvSpec
from hotloop.errors import EnvOutputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_ARRAY: Final = np.ndarray
# Parts of the state that the env itself does not know.
_ELAPSED: Final = "hotloop: elapsed_steps of time limits"
_RANDOM: Final = "hotloop: state of np_random"
_WRAPPER: Final = "hotloop: wrapper"


def make(id: str, options: Mapping[str, Any]) -> Any:
    """Return the env of `ID` or `MODULE:ID`, without wrappers that check calls and results: the runner does both."""
    import copy

    import gymnasium

    found = copy.deepcopy(gymnasium_spec(id))
    found.order_enforce = False
    found.disable_env_checker = True
    return gymnasium.make(found, **options)


class GymnasiumEnv:
    """Any `gymnasium.Env`; masks are `info["action_mask"]`, or those of its method `action_masks`."""

    def __init__(self, env: Any) -> None:
        env, info = modern(env)
        self._env = self.env = env
        self._step = env.step
        self._flat = FlatObservation(env.observation_space)
        self._action = FlatAction(env.action_space)
        action = self._action.spec
        # Only an episode shows whether there are masks.
        self._masks = None if "action_mask" in info else _method(env, "action_masks")
        masked = ("action_mask" in info or self._masks is not None) and bool(action.choices)
        self.spec = EnvSpec(
            seats=1,
            observation=self._flat.spec,
            action=action,
            masked=masked,
            own_observation=self._flat.own,
            own_action=self._action.own,
        )
        self._write = ObservationWriter(self._flat).write
        # Arrays of this type and shape are copied without further checks.
        self._dtype = np.dtype(self._flat.dtype) if self._flat.plain else None
        self._shape = self._flat.shape
        self.decode = None if self._action.single and not self._action.start else self._action.unflatten
        """Conversion of the policy's action to the env's; `None` if they are the same."""
        self.calls = (env.step, env.reset) if self._flat.plain and not masked else None
        """`step` and `reset`, for a native loop over many such envs; it hands unusual results to `take` and `begin`."""

    def bind(self, rows: Rows, infos: tuple[str, ...]) -> None:
        """Set the rows to write to, and the entries of info that are wanted."""
        self._rows = rows
        self._obs = rows.obs if rows.obs.ndim == 1 else rows.obs[0]
        self._reward: Any = memoryview(rows.reward)  # type: ignore[arg-type]  # an array is a buffer
        self._infos = infos
        self._reads_info = bool(infos) or rows.mask is not None

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start an episode."""
        self.begin(self._env.reset(seed=seed, options=options) if options else self._env.reset(seed=seed))

    def begin(self, result: Any) -> None:
        """Write the result of a reset."""
        try:
            obs, info = result
        except (TypeError, ValueError):
            raise EnvOutputError(f"reset returned {_kind(result)}: expected (observation, info)") from None
        self._write(obs, self._obs)
        if self._reads_info:
            self._read(info)

    def step(self, actions: Any) -> bool:
        """Take one action; return whether the episode is over."""
        return self.take(self._step(actions if self.decode is None else self.decode(actions)))

    def take(self, result: Any) -> bool:
        """Write the result of a step; return whether the episode is over."""
        try:
            obs, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            raise EnvOutputError(
                f"step returned {_kind(result)}: expected (observation, reward, terminated, truncated, info)"
            ) from None
        # Most steps are as they should be, and a call for each of them would be a tenth of their time.
        if type(obs) is _ARRAY and obs.dtype is self._dtype and obs.shape == self._shape:
            self._obs[...] = obs
        else:
            self._write(obs, self._obs)
        try:
            self._reward[0] = reward
        except (TypeError, ValueError, OverflowError):
            self._reward[0] = number(reward)
        if self._reads_info:
            self._read(info)
        if terminated or truncated:
            self._rows.terminated[0] = terminated
            self._rows.truncated[0] = truncated and not terminated
            write_metrics(info, self._rows, 0)
            return True
        return False

    def _read(self, info: Any) -> None:
        write_infos(info, self._infos, self._rows.infos[0], self._rows.info_given[0])
        if self._rows.mask is not None:
            mask = info.get("action_mask") if self._masks is None else self._masks()
            if mask is None:
                raise EnvOutputError("info has no 'action_mask', which it had after the first reset")
            write_mask(mask, self._rows.mask[0])

    def get_state(self) -> dict[str, NDArray[Any]] | None:
        """Return the result of the env's own `get_state`, with its wrappers' state and `np_random`; `None` without."""
        offer = getattr(getattr(self._env, "unwrapped", self._env), "get_state", None)
        if offer is None:
            return None
        limits = np.array([limit._elapsed_steps or 0 for limit in self._limits()], np.int64)
        random = json.dumps(self._env.unwrapped.np_random.bit_generator.state).encode()
        state = {name: _plain(name, value) for name, value in offer().items()}
        for i, wrapper in enumerate(self._stateful()):
            state |= {f"{_WRAPPER} {i}.{name}": value for name, value in wrapper.get_wrapper_state().items()}
        return {**state, _ELAPSED: limits, _RANDOM: np.frombuffer(random, np.uint8)}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> Any:
        """Restore a state; return the result of the env's own `set_state`, which may be an observation."""
        own = dict(state)
        for limit, elapsed in zip(self._limits(), own.pop(_ELAPSED).tolist(), strict=True):
            limit._elapsed_steps = elapsed
        for i, wrapper in enumerate(self._stateful()):
            prefix = f"{_WRAPPER} {i}."
            kept = [name for name in own if name.startswith(prefix)]
            wrapper.set_wrapper_state({name.removeprefix(prefix): own.pop(name) for name in kept})
        random = json.loads(own.pop(_RANDOM).tobytes())
        self._env.unwrapped.np_random.bit_generator.state = random
        return self._env.unwrapped.set_state(own)

    def show_state(self, seen: Any) -> None:
        """Write an observation that `set_state` returned."""
        for wrapper in reversed(self._stateful()):
            seen = wrapper.show(seen)
        self._write(seen, self._obs)

    def _limits(self) -> list[Any]:
        return [wrapper for wrapper in chain(self._env) if type(wrapper).__name__ == "TimeLimit"]

    def _stateful(self) -> list[StatefulWrapper]:
        return [wrapper for wrapper in chain(self._env) if isinstance(wrapper, StatefulWrapper)]

    def close(self) -> None:
        """Close the env."""
        self._env.close()


def _method(env: Any, name: str) -> Any:
    """Return a method of the env or one of its wrappers, if it has one."""
    with warnings.catch_warnings():
        # Wrappers of older Gymnasiums warn when asked for attributes of the env.
        warnings.simplefilter("ignore")
        return next((found for each in chain(env) if callable(found := getattr(each, name, None))), None)


def _kind(result: Any) -> str:
    return f"{len(result)} values" if isinstance(result, tuple | list) else type(result).__name__


def _plain(name: str, value: Any) -> NDArray[Any]:
    """Return a field of the state as an array that can be kept without pickling."""
    try:
        given = np.asarray(value)
    except ValueError:
        given = np.asarray(value, object)
    if given.dtype.hasobject:
        raise EnvOutputError(f"the state's field {name!r} is {value!r:.200}: expected numbers or an array of them")
    return given
