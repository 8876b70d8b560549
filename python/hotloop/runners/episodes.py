"""Finished episodes of Python envs, counted per row as the core does it: arrival order never shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop import _core

_RECENT = 4096
_NOTED = 1024


class EpisodeBook:
    """Sums per row, and the last episodes, since they were last taken."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.clear()

    def clear(self) -> None:
        """Starts counting anew."""
        self._count = np.zeros(self._rows, np.int64)
        self._length = np.zeros(self._rows, np.int64)
        self._total = np.zeros(self._rows)
        self._square = np.zeros(self._rows)
        self._min = np.inf
        self._max = -np.inf
        self._recent: list[tuple[int, int, int, int, float]] = []
        self._noted: list[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]] = []

    def log(
        self, tick: int, rows: NDArray[Any], numbers: NDArray[Any], lengths: NDArray[Any], returns: NDArray[Any]
    ) -> None:
        """Counts episodes of different rows of a group's step number `tick`; the arrays become the book's."""
        # Steps wait for this, so the sums are made of many at a time.
        self._noted.append((tick, rows, numbers, lengths, returns))
        if len(self._noted) >= _NOTED:
            self._add_up()

    def _add_up(self) -> None:
        if not self._noted:
            return
        ticks, *columns = zip(*self._noted, strict=True)
        rows, numbers, lengths, returns = map(np.concatenate, columns)
        when = np.repeat(ticks, [len(noted[1]) for noted in self._noted])
        self._noted.clear()
        played = lengths > 0
        if not played.all():
            when, rows, numbers, lengths, returns = (a[played] for a in (when, rows, numbers, lengths, returns))
        if not rows.size:
            return
        exact = returns.astype(np.float64)
        # Adds in the order of the arrays, which for a row is that of its episodes.
        for total, added in ((self._count, 1), (self._length, lengths), (self._total, exact), (self._square, exact**2)):
            np.add.at(total, rows, added)
        self._min = min(self._min, exact.min())
        self._max = max(self._max, exact.max())
        self._recent += zip(*(column.tolist() for column in (when, rows, numbers, lengths, exact)), strict=True)
        if len(self._recent) > 4 * _RECENT:
            del self._recent[: -2 * _RECENT]

    def take(self) -> _core._Episodes:
        """What the core's pool would tell; then counting starts anew."""
        self._add_up()
        recent = sorted(self._recent)[-max(_RECENT, self._rows) :]
        _, rows, numbers, lengths, returns = zip(*recent, strict=True) if recent else ((),) * 5
        total = float(sum(self._total.tolist()))
        told: _core._Episodes = {
            "count": int(self._count.sum()),
            "length": int(self._length.sum()),
            "total": total,
            "square": float(sum(self._square.tolist())),
            "min": float(self._min),
            "max": float(self._max),
            "extra": [total],
            "rows": np.array(rows, np.int64),
            "numbers": np.array(numbers, np.int64),
            "lengths": np.array(lengths, np.int64),
            "returns": np.array(returns, np.float32),
            "extras": np.array(returns, np.float32)[:, None],
        }
        self.clear()
        return told
