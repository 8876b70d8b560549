"""Curves of metrics: smoothed, cut into buckets that keep the extremes, and averaged over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.errors import QueryError
from hotloop.text import short
from hotloop.tracking.groups import group_seeds, label_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.tracking.store import Series, Store, StoredRun


@dataclass(frozen=True)
class Curve:
    """Points in the order of x."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]


@dataclass(frozen=True)
class Buckets:
    """A curve in a bounded number of buckets of equal width; empty ones are left out."""

    x: NDArray[np.float64]
    """The mean x of the points of each bucket."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    count: NDArray[np.int64]
    """Number of points of each bucket; of an average, the number of curves that reach that far."""


@dataclass(frozen=True)
class PlotLine:
    """A curve as it is plotted, with the raw line or the spread of several seeds behind it."""

    title: str
    front: Curve
    behind: Curve | None = None
    band: Buckets | None = None

    def buckets(self, count: int) -> Buckets:
        """The curve in at most so many buckets; an average over seeds as it is."""
        return self.band or buckets(self.front, count)


def prepare_lines(
    store: Store,
    runs: Sequence[StoredRun],
    metric: str,
    *,
    x: str = "step",
    low: float | None = None,
    smooth: float = 0.0,
    by_seed: bool = False,
) -> list[PlotLine]:
    """A line for each run, or with `by_seed` for each group of seeds."""
    curves = {run.id: _checked_curve(store, run, metric, x, low) for run in runs}
    groups = group_seeds(runs) if by_seed else [[run] for run in runs]
    lines = []
    for members, title in zip(groups, label_groups(groups), strict=True):
        raw = [curves[run.id] for run in members]
        if len(raw) > 1:
            band = average([smoothed(one, smooth) for one in raw])
            lines.append(PlotLine(title + _describe_count(band), Curve(band.x, band.mean), None, band))
        else:
            lines.append(PlotLine(title, smoothed(raw[0], smooth), raw[0] if smooth else None))
    return lines


def _describe_count(band: Buckets) -> str:
    """From where on an average has fewer curves; empty if all have the same length."""
    falls = np.flatnonzero(np.diff(band.count)) + 1
    return "".join(f", n={band.count[i]} from {short(float(band.x[i]))}" for i in falls.tolist())


def _checked_curve(store: Store, run: StoredRun, metric: str, x: str, low: float | None) -> Curve:
    found = curve(store.series(run, metric), run, x)
    if not len(found.x):
        raise _missing_metric(store, run, metric)
    if low is not None:
        found = above(found, low)
        if not len(found.x):
            raise QueryError(f"the run {run.name!r} has no {metric} of {low:g} or more")
    return found


def _missing_metric(store: Store, run: StoredRun, metric: str) -> QueryError:
    known = store.metric_names(run)
    if not known:
        return QueryError(f"the run {run.name!r} has no records yet")
    near = get_close_matches(metric, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f": it has {', '.join(known)}"
    return QueryError(f"the run {run.name!r} has no metric {metric!r}{hint}")


def curve(series: Series, run: StoredRun, x: str) -> Curve:
    """A series over steps, or over the seconds since the run began."""
    if x == "step" or not len(series.times):
        return Curve(series.steps.astype(np.float64), series.values)
    # Between two records no time has passed if the clock was set back meanwhile.
    passed = np.maximum(np.diff(series.times, prepend=run.created), 0.0)
    return Curve(np.cumsum(passed), series.values)


def above(given: Curve, low: float) -> Curve:
    """The points that are not below a value: the first returns may be so low that nothing else can be seen."""
    kept = given.y >= low
    return Curve(given.x[kept], given.y[kept])


def smoothed(given: Curve, weight: float) -> Curve:
    """The exponential moving average with this weight of the past, corrected for its bias towards zero."""
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
    """At most `count` buckets, each with its lowest, highest and mean value."""
    if count < 1:
        raise ValueError(f"the number of buckets is {count}: expected 1 or more")
    if not len(given.x):
        none: NDArray[Any] = np.zeros(0)
        return Buckets(none, none, none, none, none.astype(np.int64))
    first, last = given.x[0], given.x[-1]
    width = (last - first) / count or 1.0
    index = np.minimum(((given.x - first) / width).astype(np.int64), count - 1)
    begins = np.flatnonzero(np.diff(index, prepend=-1))
    sizes = np.diff(begins, append=len(index))
    return Buckets(
        np.add.reduceat(given.x, begins) / sizes,
        np.minimum.reduceat(given.y, begins),
        np.maximum.reduceat(given.y, begins),
        np.add.reduceat(given.y, begins) / sizes,
        sizes,
    )


def average(curves: Sequence[Curve], points: int = 500) -> Buckets:
    """The mean of several curves with one standard deviation to each side.

    It begins where all of them have begun. Where a curve ends, the mean goes on with those that are left.
    """
    first = max(given.x[0] for given in curves)
    ends = [given.x[-1] for given in curves if given.x[-1] >= first]
    # A grid that has the end of each curve, so that none is shortened.
    x = np.union1d(np.linspace(first, max(ends), points), ends)
    values = np.stack([np.interp(x, given.x, given.y, right=np.nan) for given in curves])
    reaching = np.isfinite(values)
    count = reaching.sum(axis=0)
    mean = np.where(reaching, values, 0.0).sum(axis=0) / count
    squares = np.where(reaching, (values - mean) ** 2, 0.0).sum(axis=0)
    spread = np.sqrt(squares / np.maximum(count - 1, 1))
    return Buckets(x, mean - spread, mean + spread, mean, count)
