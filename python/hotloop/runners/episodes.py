"""Statistics of finished episodes of Python envs, summed per row as the core does it: independent of arrival order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop import _core

    _Episode = tuple[int, int, int, int, float, Sequence[float]]

_RECENT = 4096
_MAX_PENDING = 4096


class EpisodeCounter:
    """Sums per row and the most recent episodes, since the last `take`."""

    def __init__(self, rows: int, metrics: int = 0) -> None:
        self._rows = rows
        self._metrics = metrics
        self.clear()

    def clear(self) -> None:
        """Reset all sums."""
        self._count = np.zeros(self._rows, np.int64)
        self._length = np.zeros(self._rows, np.int64)
        self._total = np.zeros(self._rows)
        self._square = np.zeros(self._rows)
        self._min = np.inf
        self._max = -np.inf
        self._measured = np.zeros((self._rows, self._metrics))
        self._measured_count = np.zeros(self._metrics, np.int64)
        self._recent: list[_Episode] = []
        self._pending: list[_Episode] = []

    def add(
        self, tick: int, row: int, number: int, length: int, episode_return: float, metrics: Sequence[float] = ()
    ) -> None:
        """Count an episode that ended with a group's step number `tick`; metrics that it does not have are NaN."""
        # Steps wait for this call, so sums are updated for many episodes at a time.
        self._pending.append((tick, row, number, length, episode_return, metrics))
        if len(self._pending) >= _MAX_PENDING:
            self._add_pending()

    def _add_pending(self) -> None:
        played = [episode for episode in self._pending if episode[3] > 0]
        self._pending.clear()
        if not played:
            return
        _, rows, _, lengths, returns, metrics = zip(*played, strict=True)
        exact = np.array(returns)
        # Adds in the order of the arrays, which for a row is that of its episodes.
        for total, added in ((self._count, 1), (self._length, lengths), (self._total, exact), (self._square, exact**2)):
            np.add.at(total, list(rows), added)
        measured = np.array(metrics).reshape(len(played), self._metrics)
        np.add.at(self._measured, list(rows), np.nan_to_num(measured))
        self._measured_count += np.isfinite(measured).sum(0)
        self._min = min(self._min, exact.min())
        self._max = max(self._max, exact.max())
        self._recent += played
        if len(self._recent) > 4 * _RECENT:
            del self._recent[: -2 * _RECENT]

    def take(self) -> _core._Episodes:
        """Return the statistics in the form of the core's pool, and reset them."""
        self._add_pending()
        recent = sorted(self._recent)[-max(_RECENT, self._rows) :]
        _, rows, numbers, lengths, returns, metrics = zip(*recent, strict=True) if recent else ((),) * 6
        total, count = float(sum(self._total.tolist())), int(self._count.sum())
        extras = np.array(metrics, np.float32).reshape(len(recent), self._metrics)
        report: _core._Episodes = {
            "count": count,
            "length": int(self._length.sum()),
            "total": total,
            "square": float(sum(self._square.tolist())),
            "min": float(self._min),
            "max": float(self._max),
            "extra": [total, *(float(sum(column)) for column in self._measured.T.tolist())],
            "extra_counts": [count, *self._measured_count.tolist()],
            "rows": np.array(rows, np.int64),
            "numbers": np.array(numbers, np.int64),
            "lengths": np.array(lengths, np.int64),
            "returns": np.array(returns, np.float32),
            "extras": np.concatenate([np.array(returns, np.float32)[:, None], extras], 1),
        }
        self.clear()
        return report
