"""The schedule of recovery checkpoints: often enough that a kill loses about a minute, rarely enough to cost little.

Checkpoints of a run fall on fixed counts of iterations, whatever the clock says. Recovery checkpoints come in between,
on multiples of a power of two that follows the measured speed. They are no part of a run's results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hotloop.training.counters import Counters

# Seconds of training from one to the next, at least.
_SHORTEST: Final = 20.0
# Share of the time that saving may take.
_SHARE: Final = 0.01


class RecoverySchedule:
    """The spacing of recovery checkpoints, by the seconds that training has taken."""

    def __init__(self) -> None:
        self._saved_at = (0, 0.0)
        self._cost = 0.0

    def saved(self, counters: Counters, cost: float) -> None:
        """Note that a checkpoint of any kind was just written, and the seconds it took."""
        self._saved_at = counters.iterations, counters.seconds
        self._cost = max(cost, 0.5 * self._cost)

    def iterations_to_go(self, counters: Counters) -> int:
        """Return the number of iterations to the next count at which one may be due."""
        spacing = self._spacing(counters)
        return spacing - counters.iterations % spacing

    def is_due(self, counters: Counters) -> bool:
        """Return whether one is due after this many iterations."""
        unsaved = counters.seconds - self._saved_at[1]
        return unsaved >= self._interval and counters.iterations % self._spacing(counters) == 0

    @property
    def _interval(self) -> float:
        return max(_SHORTEST, self._cost / _SHARE)

    def _spacing(self, counters: Counters) -> int:
        """Return the largest power of two of iterations that takes no longer than half the interval."""
        if not counters.iterations or not counters.seconds:
            return 1 << 30
        count = int(0.5 * self._interval * counters.iterations / counters.seconds)
        return 1 << max(0, count.bit_length() - 1)
