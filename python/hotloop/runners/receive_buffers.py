"""The buffers that groups in flight write to, and gathering them into one batch."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop import _core
    from hotloop.runners.rollout import Rollout

    Target = tuple[Rollout, int] | None
    """A slot of a rollout, or the runner's own memory."""


class ReceiveBuffers:
    """The target of each group in flight, and its arrays by name."""

    def __init__(self, pool: _core.Pool) -> None:
        starts = pool.group_starts()
        self.slices = [slice(first, last) for first, last in pairwise(starts)]
        self.rows = np.arange(starts[-1])
        self.rows.flags.writeable = False
        self._pool = pool
        self._targets: list[Target] = [None] * len(self.slices)
        self._views: list[dict[str, NDArray[Any]]] = []

    def set_target(self, group: int, target: Target) -> None:
        """Set the target that a group writes to."""
        self._targets[group] = target

    def in_rollout(self, groups: Sequence[int]) -> bool:
        """Return whether one of these groups writes to a rollout."""
        return any(self._targets[group] is not None for group in groups)

    def gather(self, groups: Sequence[int], names: Sequence[str]) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
        """Return the named arrays of these groups and their row numbers; views if the rows are adjacent in memory."""
        first = groups[0]
        target = self._targets[first]
        if len(groups) == 1 and target is None:
            own = self._own(first)
            return [own[name] for name in names], self.rows[self.slices[first]]
        targets = [self._targets[group] for group in groups]
        slices = [self.slices[group] for group in groups]
        if all(b == a + 1 for a, b in pairwise(groups)) and targets.count(target) == len(targets):
            rows = slice(slices[0].start, slices[-1].stop)
            return [self._whole(name, target)[rows] for name in names], self.rows[rows]
        parts = list(zip(targets, slices, strict=True))
        arrays = [np.concatenate([self._whole(name, at)[rows] for at, rows in parts]) for name in names]
        return arrays, np.concatenate([self.rows[rows] for rows in slices])

    def _own(self, group: int) -> dict[str, NDArray[Any]]:
        """Return a group's views of the runner's own memory, which never moves."""
        if not self._views:
            arrays = self._pool.flight()
            self._views = [
                {name: array[rows] for name, array in arrays.items()} for rows in [*self.slices, slice(None)]
            ]
        return self._views[group]

    def _whole(self, name: str, target: Target) -> NDArray[Any]:
        return self._own(-1)[name] if target is None else target[0].slot(name, target[1])
