"""Actions of Python envs: all of them are validated before any env moves, as in the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop import _core
from hotloop.envs.scaling import ActionScale
from hotloop.runners.layout import HISTORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hotloop.envs.spec import Action


class ActionWriter:
    """Validates actions and writes them to the memory that workers read."""

    def __init__(
        self,
        action: Action,
        views: Mapping[str, NDArray[Any]],
        rows_of: Sequence[slice],
        *,
        scaled: bool = False,
        start: int = 0,
    ) -> None:
        """Prepare for the env's actions; `scaled` ones are in [-1, 1], discrete ones are counted from `start`."""
        self._views = views
        self._choices = np.array(action.choices, np.int64)
        self._start = start
        self._scale: ActionScale | None = None
        self._sets, self._reals = len(action.choices), len(action.low)
        if action.low:
            self._low = np.array([*(0 for _ in action.choices), *action.low], np.float32)
            self._high = np.array([*(n - 1 for n in action.choices), *action.high], np.float32)
            self._scale = ActionScale(action) if scaled else None
        self._mask = views.get("mask")
        self._rows_of = rows_of
        self._native = None
        if action.kind == "discrete" and self._mask is None and not start:
            bounds = [(rows.start, rows.stop) for rows in rows_of]
            self._native = _core.Choices(views["action"], views["turn"], bounds, int(self._choices[0]))

    def __call__(self, actions: ArrayLike, group: int | None = None) -> None:
        """Write the actions of a group's rows, or of all rows."""
        if self._native is not None and self._native.take(actions, group):
            return
        rows = slice(None) if group is None else self._rows_of[group]
        groups = range(len(self._rows_of)) if group is None else (group,)
        if self._sets and self._reals and isinstance(actions, tuple):
            actions = self._joined(actions)
        given = np.asarray(actions)
        kept = self._views["action"][:, rows]
        kinds, expected = ("fiu", "numbers") if self._reals else ("iu", "whole numbers")
        if given.dtype.kind not in kinds:
            raise TypeError(f"the actions have dtype {given.dtype}: expected {expected}")
        if given.shape != kept.shape[1:]:
            raise ValueError(f"the actions have shape {list(given.shape)}: expected {list(kept.shape[1:])}")
        valid, first = self._views["valid"][rows], rows.start or 0
        if self._reals:
            given = self._finite(given, valid, first)
            if self._sets:
                self._check_choices(self._whole(given[:, : self._sets], valid, first), valid, first)
            given = np.clip(given, self._low, self._high) if self._scale is None else self._scale(given)
        else:
            given = given - self._start if self._start else given
            self._check_choices(given, valid, first)
        turn = self._views["turn"]
        for index in groups:
            turn[index] += 1
            part = self._rows_of[index]
            self._views["action"][turn[index] % HISTORY, part] = given[part.start - first : part.stop - first]

    def _joined(self, actions: tuple[Any, ...]) -> NDArray[Any]:
        """Return rows of hybrid actions that were given as a Tuple of choices and real numbers."""
        if len(actions) != 2:
            raise ValueError(f"the actions are a tuple of {len(actions)}: expected (choices, real numbers)")
        choices, reals = map(np.asarray, actions)
        if choices.dtype.kind not in "iu":
            raise TypeError(f"the choices of the actions have dtype {choices.dtype}: expected whole numbers")
        if choices.shape != (len(choices), self._sets) or reals.shape != (len(choices), self._reals):
            raise ValueError(
                f"the parts of the actions have shapes {list(choices.shape)} and {list(reals.shape)}: expected "
                f"{self._sets} choices and {self._reals} real numbers for each row"
            )
        joined: NDArray[Any] = np.concatenate([choices, reals], axis=1)
        return joined

    def _finite(self, given: NDArray[Any], valid: NDArray[np.bool_], first: int) -> NDArray[Any]:
        if np.isfinite(given).all():
            return given
        bad = ~np.isfinite(given).all(axis=1) & valid
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ValueError(f"the action of row {first + row} is {given[row]}: expected a finite number")
        finite: NDArray[Any] = np.nan_to_num(given)
        return finite

    def _whole(self, given: NDArray[Any], valid: NDArray[np.bool_], first: int) -> NDArray[np.int64]:
        choices: NDArray[np.int64] = given.astype(np.int64)
        bad = (choices != given).any(axis=1) & valid
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ValueError(f"the choices of row {first + row} are {given[row]}: expected whole numbers")
        return choices

    def _check_choices(self, given: NDArray[Any], valid: NDArray[np.bool_], first: int) -> None:
        choices = given.reshape(len(given), -1)
        if len(self._choices) > 1 or not given.size or given.min() < 0 or given.max() >= self._choices[0]:
            bad = ((choices < 0) | (choices >= self._choices)).any(axis=1) & valid
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                most = (self._choices - 1).tolist() if given.ndim > 1 else self._choices[0] - 1 + self._start
                raise ValueError(
                    f"the action of row {first + row} is {given[row] + self._start}: expected {self._start} to {most}"
                )
        if self._mask is not None:
            self._check_mask(choices, valid, first)

    def _check_mask(self, given: NDArray[Any], valid: NDArray[np.bool_], first: int) -> None:
        assert self._mask is not None
        starts = np.concatenate([[0], np.cumsum(self._choices)[:-1]])
        rows = np.flatnonzero(valid)
        allowed = self._mask[first + rows[:, None], starts + given[rows]]
        if not allowed.all():
            row = int(rows[np.flatnonzero(~allowed.astype(bool).all(axis=1))[0]])
            raise ValueError(f"the action of row {first + row} is {given[row].tolist()}, which its mask forbids")
