"""Finished episodes of Python envs, counted per row as the core does it: arrival order never shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hotloop import _core

_RECENT = 4096
_NOTED = 4096


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
        self._noted: list[tuple[int, int, int, int, float]] = []

    def log(self, tick: int, row: int, number: int, length: int, earned: float) -> None:
        """Counts an episode that ended with a group's step number `tick`."""
        # Steps wait for this, so the sums are made of many at a time.
        self._noted.append((tick, row, number, length, earned))
        if len(self._noted) >= _NOTED:
            self._add_up()

    def _add_up(self) -> None:
        if not self._noted:
            return
        played = [noted for noted in self._noted if noted[3] > 0]
        self._noted.clear()
        if not played:
            return
        _, rows, _, lengths, returns = zip(*played, strict=True)
        exact = np.array(returns)
        # Adds in the order of the arrays, which for a row is that of its episodes.
        for total, added in ((self._count, 1), (self._length, lengths), (self._total, exact), (self._square, exact**2)):
            np.add.at(total, list(rows), added)
        self._min = min(self._min, exact.min())
        self._max = max(self._max, exact.max())
        self._recent += played
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
