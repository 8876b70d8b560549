"""Actions of Python envs: all of them are validated before any env moves, as in the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop import _core
from hotloop.envs.scaling import ActionScale
from hotloop.envs.spec import ContinuousAction
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
        self._kind = action.kind
        self._choices = np.array(action.choices, np.int64)
        self._start = start
        self._scale: ActionScale | None = None
        if isinstance(action, ContinuousAction):
            self._low, self._high = (np.asarray(end, np.float32) for end in (action.low, action.high))
            self._scale = ActionScale(action) if scaled else None
        self._mask = views.get("mask")
        self._rows_of = rows_of
        self._native = None
        if self._kind == "discrete" and self._mask is None and not start:
            bounds = [(rows.start, rows.stop) for rows in rows_of]
            self._native = _core.Choices(views["action"], views["turn"], bounds, int(self._choices[0]))

    def __call__(self, actions: ArrayLike, group: int | None = None) -> None:
        """Write the actions of a group's rows, or of all rows."""
        if self._native is not None and self._native.take(actions, group):
            return
        rows = slice(None) if group is None else self._rows_of[group]
        groups = range(len(self._rows_of)) if group is None else (group,)
        given = np.asarray(actions)
        kept = self._views["action"][:, rows]
        kinds, expected = ("fiu", "numbers") if self._kind == "continuous" else ("iu", "whole numbers")
        if given.dtype.kind not in kinds:
            raise TypeError(f"the actions have dtype {given.dtype}: expected {expected}")
        if given.shape != kept.shape[1:]:
            raise ValueError(f"the actions have shape {list(given.shape)}: expected {list(kept.shape[1:])}")
        valid, first = self._views["valid"][rows], rows.start or 0
        if self._kind == "continuous":
            given = self._clip(given, valid, first)
        else:
            given = given - self._start if self._start else given
            self._check_choices(given, valid, first)
        turn = self._views["turn"]
        for index in groups:
            turn[index] += 1
            part = self._rows_of[index]
            self._views["action"][turn[index] % HISTORY, part] = given[part.start - first : part.stop - first]

    def _clip(self, given: NDArray[Any], valid: NDArray[np.bool_], first: int) -> NDArray[Any]:
        if not np.isfinite(given).all():
            bad = ~np.isfinite(given).all(axis=1) & valid
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise ValueError(f"the action of row {first + row} is {given[row]}: expected a finite number")
            given = np.nan_to_num(given)
        if self._scale is not None:
            return self._scale(given)
        clipped: NDArray[Any] = np.clip(given, self._low, self._high)
        return clipped

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
