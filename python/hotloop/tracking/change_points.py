"""Change points: where in a window each recorded metric changed, the clearest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hotloop.tracking.queries import bucketed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.tracking.store import Store, StoredRun

# Points of a metric that are looked at: more tell no more.
_POINTS: Final = 200
# Points on either side of a change.
_FEWEST: Final = 3
# The part of a metric's variance that a change must explain.
_EXPLAINED: Final = 0.3
# Times and counters: they grow whatever happens.
CLOCKS: Final = ("seconds", "seconds_in", "steps", "iterations", "episodes")


@dataclass(frozen=True)
class ChangePoint:
    """A step at which a metric went from one level to another."""

    metric: str
    step: int
    before: float
    after: float
    score: float
    """Log-likelihood ratio, in nats, of a step over a line as a description of the points."""


def find_change(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[int, float, float, float] | None:
    """Index, levels and score of the clearest change of some points; `None` if there is none.

    >>> import numpy as np
    >>> y = np.r_[np.zeros(50), np.ones(50)] + 0.01 * np.sin(np.arange(100))
    >>> index, before, after, score = find_change(np.arange(100.0), y)
    >>> index, round(before, 1), round(after, 1)
    (50, 0.0, 1.0)
    >>> find_change(np.arange(100.0), np.arange(100.0)) is None
    True
    """
    size = len(y)
    if size < 2 * _FEWEST or not np.isfinite(y).all():
        return None
    centred = y - y.mean()
    whole = float(centred @ centred)
    scale = float(np.abs(y).max())
    tiny = size * (1e-9 * scale) ** 2
    if whole <= tiny:
        return None
    sums = np.cumsum(centred)
    splits = np.arange(_FEWEST, size - _FEWEST + 1)
    left = sums[splits - 1]
    # Residual sum of squares with both sides replaced by their means.
    gains = left**2 / splits + left**2 / (size - splits)
    best = int(np.argmax(gains))
    split, rest = int(splits[best]), max(0.0, whole - float(gains[best]))
    if gains[best] < _EXPLAINED * whole:
        return None
    along = x - x.mean()
    spread = float(along @ along)
    straight = whole - (float(along @ centred) ** 2 / spread if spread > 0 else 0.0)
    score = 0.5 * size * float(np.log((max(0.0, straight) + tiny) / (rest + tiny)))
    if score <= 0:
        return None
    return split, float(y[:split].mean()), float(y[split:].mean()), score


def change_points(
    store: Store,
    run: StoredRun,
    names: Sequence[str],
    *,
    low: float | None = None,
    high: float | None = None,
    main: str | None = None,
) -> list[ChangePoint]:
    """The change of each metric in a window of steps, ranked.

    A change that came after that of the `main` metric cannot have caused it, and counts half.
    """
    found = []
    for name, series in bucketed(store, run, names, "step", low, high, _POINTS).items():
        change = find_change(series.first, series.mean)
        if change is not None:
            index, before, after, score = change
            found.append(ChangePoint(name, int(series.first[index]), before, after, score))
    at = next((change.step for change in found if change.metric == main), None)

    def rank(change: ChangePoint) -> float:
        late = at is not None and change.step > at
        return -change.score * (0.5 if late else 1.0)

    return sorted(found, key=lambda change: (change.metric != main, rank(change), change.metric))


def is_clock(name: str) -> bool:
    """Whether a metric measures time or counts, so that its changes say nothing about learning."""
    return name in CLOCKS or name.startswith("time.")
