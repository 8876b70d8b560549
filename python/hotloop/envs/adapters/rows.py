"""The interface of adapted envs: they write observations and rewards to rows of shared memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from hotloop.errors import EnvOutputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hotloop.envs.flatten import FlatObservation
    from hotloop.envs.spec import EnvSpec


SUCCESS: Final = "is_success"
"""The entry of info that is reported wherever an env has it."""


class Rows(NamedTuple):
    """One env's rows: an entry per seat."""

    obs: NDArray[Any]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    mask: NDArray[np.int8] | None
    infos: NDArray[np.float32]
    info_given: NDArray[np.bool_]
    """Which of the wanted infos the env gave."""
    metric_names: tuple[str, ...]
    """Entries of an episode's last info that are reported with the episode."""
    metrics: NDArray[np.float32]
    """Their values; NaN where the env gave none."""


class Adapted(Protocol):
    """One env of any kind."""

    spec: EnvSpec
    env: Any
    """The original env."""

    def bind(self, rows: Rows, infos: tuple[str, ...]) -> None:
        """Set the rows to write to, and the entries of info that are wanted."""

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start an episode; write the observations."""

    def step(self, actions: Any) -> bool:
        """Step (a number or an array for one seat, else a list of them; one array if the rows end independently).

        Returns whether the episode is over.
        """

    def get_state(self) -> dict[str, NDArray[Any]] | None:
        """Return the whole state as arrays, if the env offers it."""

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> Any:
        """Restore a state; return the observation there, if the env returns it."""

    def show_state(self, seen: Any) -> None:
        """Write the observation that `set_state` returned."""

    def close(self) -> None:
        """Close the env."""


class ObservationWriter:
    """Validates and writes observations. Broadcasts and lossy casts, which would hide mistakes, are rejected."""

    def __init__(self, flat: FlatObservation) -> None:
        self._flat = flat
        self._flatten = None if flat.plain else flat.flatten
        self._shape = flat.shape
        self._dtype: Any = None

    def write(self, obs: Any, out: NDArray[Any]) -> None:
        """Write one seat's observation."""
        if self._flatten is not None:
            try:
                out[...] = self._flatten(obs)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise EnvOutputError(f"the env's observation does not fit its space: {error!s:.500}") from error
            return
        if type(obs) is not np.ndarray:
            obs = np.asarray(obs)
        if obs.dtype is not self._dtype:
            self._check_type(obs)
        if obs.shape != self._shape:
            raise EnvOutputError(f"the env's observation has shape {obs.shape}: its space has {self._shape}")
        out[...] = obs

    def _check_type(self, obs: NDArray[Any]) -> None:
        if obs.dtype.kind not in "fiub" or not np.can_cast(obs.dtype, self._flat.dtype, "same_kind"):
            space = self._flat.space
            raise EnvOutputError(f"the env's observation has dtype {obs.dtype}: its space is {space}")
        self._dtype = obs.dtype


def number(reward: Any) -> float:
    """Return a reward as a finite number; an array with one element is one, too."""
    try:
        value = float(reward.item() if isinstance(reward, np.ndarray) else reward)
    except (TypeError, ValueError):
        raise EnvOutputError(f"the env's reward is {reward!r:.200}: expected a number") from None
    if not math.isfinite(value):
        raise EnvOutputError(f"the env's reward is {value}: expected a finite number")
    return value


def write_infos(info: Any, wanted: tuple[str, ...], values: NDArray[np.float32], given: NDArray[np.bool_]) -> None:
    """Write the wanted entries of one seat's info, as far as it has them."""
    for i, name in enumerate(wanted):
        found = info.get(name)
        given[i] = found is not None
        values[i] = number(found) if found is not None else 0.0


def write_metrics(info: Any, rows: Rows, seat: int) -> None:
    """Write the entries of one seat's info that are reported with its episode; NaN for those that it lacks."""
    for i, name in enumerate(rows.metric_names):
        # Some envs return no info at all.
        found = info.get(name) if isinstance(info, dict) else None
        try:
            rows.metrics[seat, i] = np.nan if found is None else number(found)
        except EnvOutputError:
            if name != SUCCESS:
                raise EnvOutputError(f"info[{name!r}] is {found!r:.200}: expected a finite number") from None
            # Nobody asked for this one.
            rows.metrics[seat, i] = np.nan


def chain(env: Any) -> list[Any]:
    """Return the wrappers of an env, outermost first, and the env itself."""
    found = [env]
    while found[-1] is not getattr(found[-1], "unwrapped", found[-1]):
        found.append(found[-1].env)
    return found


def write_mask(mask: Any, out: NDArray[np.int8]) -> None:
    """Write which choices are allowed."""
    given = np.ravel(np.asarray(mask))
    if given.shape != out.shape:
        raise EnvOutputError(f"the env's action mask has {given.size} entries: its action space has {out.size}")
    np.not_equal(given, 0, out=out, casting="unsafe")
