"""Curves made of a run's points: smoothed, cut into buckets that keep the extremes, and joined over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.tracking.store import Series, StoredRun


@dataclass(frozen=True)
class Curve:
    """Points in the order of x."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]


@dataclass(frozen=True)
class Buckets:
    """A curve in a bounded number of pieces of equal width; empty ones are left out."""

    x: NDArray[np.float64]
    """The mean of its points'."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]


def curve(series: Series, run: StoredRun, x: str) -> Curve:
    """A series over steps, or over the seconds since the run began."""
    along = series.steps.astype(np.float64) if x == "step" else series.times - run.created
    return Curve(along, series.values)


def above(given: Curve, low: float) -> Curve:
    """Without the points below: of many returns the first are so bad that beside them nothing can be seen."""
    kept = given.y >= low
    return Curve(given.x[kept], given.y[kept])


def smoothed(given: Curve, weight: float) -> Curve:
    """The running mean that forgets: each point has `weight` of the one before; the first are not drawn to zero."""
    if not 0 <= weight < 1:
        raise ValueError(f"the weight of smoothing is {weight}: expected 0 or more, and less than 1")
    if weight == 0 or not len(given.y):
        return given
    found = np.empty_like(given.y)
    total = share = 0.0
    for i, value in enumerate(given.y.tolist()):
        total = weight * total + (1 - weight) * value
        share = weight * share + (1 - weight)
        found[i] = total / share
    return Curve(given.x, found)


def buckets(given: Curve, count: int) -> Buckets:
    """At most `count` pieces, each with its lowest, highest and mean value."""
    if count < 1:
        raise ValueError(f"the number of buckets is {count}: expected 1 or more")
    if not len(given.x):
        none: NDArray[Any] = np.zeros(0)
        return Buckets(none, none, none, none)
    first, last = given.x[0], given.x[-1]
    width = (last - first) / count or 1.0
    place = np.minimum(((given.x - first) / width).astype(np.int64), count - 1)
    begins = np.flatnonzero(np.diff(place, prepend=-1))
    sizes = np.diff(begins, append=len(place))
    return Buckets(
        np.add.reduceat(given.x, begins) / sizes,
        np.minimum.reduceat(given.y, begins),
        np.maximum.reduceat(given.y, begins),
        np.add.reduceat(given.y, begins) / sizes,
    )


def joined(curves: Sequence[Curve], points: int = 500) -> Buckets:
    """The mean of several curves, and one standard deviation to each side, as far as all of them reach."""
    first = max(given.x[0] for given in curves)
    last = min(given.x[-1] for given in curves)
    x = np.linspace(first, max(first, last), points)
    values = np.stack([np.interp(x, given.x, given.y) for given in curves])
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1 if len(curves) > 1 else 0)
    return Buckets(x, mean - spread, mean + spread, mean)
