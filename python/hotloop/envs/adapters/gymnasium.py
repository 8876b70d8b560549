"""A Gymnasium env as one row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.envs.adapters.rows import ObservationWriter, Rows, number, write_infos, write_mask
from hotloop.envs.flatten import FlatAction, FlatObservation
from hotloop.envs.spec import EnvSpec
from hotloop.errors import EnvOutputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_ARRAY: Final = np.ndarray
# Of the state, what the env itself knows nothing of.
_ELAPSED: Final = "hotloop: elapsed_steps of time limits"
_RANDOM: Final = "hotloop: state of np_random"


def make(id: str, options: Mapping[str, Any]) -> Any:
    """The env of that id, without the wrappers that check calls and what comes out: the runner does both."""
    import copy

    import gymnasium

    found = copy.deepcopy(gymnasium.spec(id))
    found.order_enforce = False
    found.disable_env_checker = True
    return gymnasium.make(found, **options)


class GymnasiumEnv:
    """Any `gymnasium.Env`; masks are `info["action_mask"]`."""

    def __init__(self, env: Any) -> None:
        self._env = self.env = env
        self._step = env.step
        self._flat = FlatObservation(env.observation_space)
        self._action = FlatAction(env.action_space)
        # Whether there are masks shows only in an episode.
        _, info = env.reset(seed=0)
        action = self._action.spec
        masked = "action_mask" in info and bool(action.choices)
        self.spec = EnvSpec(seats=1, observation=self._flat.spec, action=action, masked=masked)
        self._write = ObservationWriter(self._flat).write
        # What needs no look at all before it is written.
        self._dtype = np.dtype(self._flat.dtype) if self._flat.plain else None
        self._shape = self._flat.shape
        self.decode = None if self._action.single and not self._action.start else self._action.unflatten
        """How the env's action is made of what was decided, if it is another."""
        self.calls = (env.step, env.reset) if self._flat.plain and not masked else None
        """For who steps many such envs by one native call: `take` and `begin` are for what is not plain."""

    def bind(self, rows: Rows, infos: tuple[str, ...]) -> None:
        """Where to write from now on."""
        self._rows = rows
        self._obs = rows.obs if rows.obs.ndim == 1 else rows.obs[0]
        self._reward: Any = memoryview(rows.reward)  # type: ignore[arg-type]  # an array is a buffer
        self._infos = infos
        self._looks = bool(infos) or rows.mask is not None

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Starts an episode."""
        self.begin(self._env.reset(seed=seed, options=options) if options else self._env.reset(seed=seed))

    def begin(self, result: Any) -> None:
        """Writes what a reset gave."""
        obs, info = result
        self._write(obs, self._obs)
        if self._looks:
            self._look(info)

    def step(self, actions: Any) -> bool:
        """Plays one action."""
        return self.take(self._step(actions if self.decode is None else self.decode(actions)))

    def take(self, result: Any) -> bool:
        """Writes what a step gave; whether the episode is over."""
        obs, reward, terminated, truncated, info = result
        # Most steps are as they should be, and a call for each of them would be a tenth of their time.
        if type(obs) is _ARRAY and obs.dtype is self._dtype and obs.shape == self._shape:
            self._obs[...] = obs
        else:
            self._write(obs, self._obs)
        try:
            self._reward[0] = reward
        except (TypeError, ValueError, OverflowError):
            self._reward[0] = number(reward)
        if self._looks:
            self._look(info)
        if terminated or truncated:
            self._rows.terminated[0] = terminated
            self._rows.truncated[0] = truncated and not terminated
            return True
        return False

    def _look(self, info: Any) -> None:
        write_infos(info, self._infos, self._rows.infos[0], self._rows.told[0])
        if self._rows.mask is not None:
            write_mask(info["action_mask"], self._rows.mask[0])

    def get_state(self) -> dict[str, NDArray[Any]] | None:
        """What the env's own `get_state` gives, if it has one, its time limits and its `np_random`."""
        offer = getattr(self._env.unwrapped, "get_state", None)
        if offer is None:
            return None
        limits = np.array([limit._elapsed_steps or 0 for limit in self._limits()], np.int64)
        random = json.dumps(self._env.unwrapped.np_random.bit_generator.state).encode()
        own = {name: _plain(name, value) for name, value in offer().items()}
        return {**own, _ELAPSED: limits, _RANDOM: np.frombuffer(random, np.uint8)}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> Any:
        """Hands it back to the env; gives what that returns, which may be an observation."""
        own = dict(state)
        for limit, elapsed in zip(self._limits(), own.pop(_ELAPSED).tolist(), strict=True):
            limit._elapsed_steps = elapsed
        random = json.loads(own.pop(_RANDOM).tobytes())
        self._env.unwrapped.np_random.bit_generator.state = random
        return self._env.unwrapped.set_state(own)

    def show_state(self, seen: Any) -> None:
        """Writes an observation."""
        self._write(seen, self._obs)

    def _limits(self) -> list[Any]:
        found, env = [], self._env
        while env is not env.unwrapped:
            if type(env).__name__ == "TimeLimit":
                found.append(env)
            env = env.env
        return found

    def close(self) -> None:
        """Closes the env."""
        self._env.close()


def _plain(name: str, value: Any) -> NDArray[Any]:
    """A field of the state as an array that can be kept without pickling."""
    try:
        given = np.asarray(value)
    except ValueError:
        given = np.asarray(value, object)
    if given.dtype.hasobject:
        raise EnvOutputError(f"the state's field {name!r} is {value!r:.200}: expected numbers or an array of them")
    return given
