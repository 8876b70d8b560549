"""Statistics of finished episodes of Python envs, summed per row as the core does it: independent of arrival order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hotloop import _core

_RECENT = 4096
_MAX_PENDING = 4096


class EpisodeCounter:
    """Sums per row and the most recent episodes, since the last `take`."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.clear()

    def clear(self) -> None:
        """Reset all sums."""
        self._count = np.zeros(self._rows, np.int64)
        self._length = np.zeros(self._rows, np.int64)
        self._total = np.zeros(self._rows)
        self._square = np.zeros(self._rows)
        self._min = np.inf
        self._max = -np.inf
        self._recent: list[tuple[int, int, int, int, float]] = []
        self._pending: list[tuple[int, int, int, int, float]] = []

    def add(self, tick: int, row: int, number: int, length: int, episode_return: float) -> None:
        """Count an episode that ended with a group's step number `tick`."""
        # Steps wait for this call, so sums are updated for many episodes at a time.
        self._pending.append((tick, row, number, length, episode_return))
        if len(self._pending) >= _MAX_PENDING:
            self._add_pending()

    def _add_pending(self) -> None:
        played = [episode for episode in self._pending if episode[3] > 0]
        self._pending.clear()
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
        """Return the statistics in the form of the core's pool, and reset them."""
        self._add_pending()
        recent = sorted(self._recent)[-max(_RECENT, self._rows) :]
        _, rows, numbers, lengths, returns = zip(*recent, strict=True) if recent else ((),) * 5
        total = float(sum(self._total.tolist()))
        report: _core._Episodes = {
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
        return report
