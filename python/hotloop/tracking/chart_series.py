"""Series as charts show them: runs in buckets with a smoothed line, and groups of runs with an interval."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from hotloop.tracking.curves import Curve, smoothed
from hotloop.tracking.groups import group_seeds
from hotloop.tracking.queries import Axis, BucketedSeries, bucketed, points_along

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.tracking.store import Store, StoredRun

Statistic = Literal["mean", "median", "iqm"]
Band = Literal["ci95", "std", "minmax", "none"]
Join = Literal["step", "record", "interpolated"]

RESAMPLES: Final = 2000
# Fewer seeds than this have no interval, but their lowest and highest.
_FEWEST: Final = 3
# Resamples whose medians are computed at once, to bound memory.
_CHUNK: Final = 50


@dataclass(frozen=True)
class ChartSeries:
    """A series in columns; for a group `low` and `high` are its band."""

    buckets: BucketedSeries
    raw: bool
    """Whether every point is there as it was recorded."""
    total: int
    """Number of points that it summarises."""
    smooth: NDArray[np.float64] | None = None
    """The smoothed value at the last point of each bucket."""
    members: NDArray[np.int64] | None = None
    """Number of runs of a group that reach each x."""
    joined: Join | None = None


@dataclass(frozen=True)
class Window:
    """The part of a series to show, and how finely."""

    x: Axis = "step"
    low: float | None = None
    high: float | None = None
    count: int = 600
    smooth: float = 0.0


def run_series(store: Store, run: StoredRun, name: str, window: Window) -> ChartSeries | None:
    """A metric of a run; `None` if it has no points there."""
    if not window.smooth:
        found = bucketed(store, run, [name], window.x, window.low, window.high, window.count)[name]
        if not len(found.first):
            return None
        total = int(found.count.sum())
        return ChartSeries(found, raw=total == len(found.count), total=total)
    # The past before the window counts for the smoothed line.
    points = points_along(store, run, name, window.x)
    line = _cut(Curve(points.x, smoothed(points, window.smooth).y), window)
    points = _cut(points, window)
    if not len(points.x):
        return None
    buckets, last = cut_into_buckets(points, window)
    return ChartSeries(buckets, raw=len(last) == len(points.x), total=len(points.x), smooth=line.y[last])


def _cut(points: Curve, window: Window) -> Curve:
    kept = np.ones(len(points.x), np.bool_)
    if window.low is not None:
        kept &= points.x >= window.low
    if window.high is not None:
        kept &= points.x <= window.high
    return Curve(points.x[kept], points.y[kept])


def cut_into_buckets(points: Curve, window: Window) -> tuple[BucketedSeries, NDArray[np.int64]]:
    """Points in the buckets that `queries.bucketed` would make, and the index of each one's last point."""
    x, y = points.x, points.y
    if len(x) <= 2 * window.count:
        return BucketedSeries(x, x, y, y, y, np.ones(len(x), np.int64)), np.arange(len(x))
    begin = float(x.min() if window.low is None else window.low)
    width = (float(x.max() if window.high is None else window.high) - begin) / window.count or 1.0
    index = np.minimum(((x - begin) / width).astype(np.int64), window.count - 1)
    begins = np.flatnonzero(np.diff(index, prepend=-1))
    sizes = np.diff(begins, append=len(index))
    last = begins + sizes - 1
    mean = np.add.reduceat(y, begins) / sizes
    low, high = np.minimum.reduceat(y, begins), np.maximum.reduceat(y, begins)
    return BucketedSeries(x[begins], x[last], low, high, mean, sizes), last


def group_series(
    store: Store, runs: Sequence[StoredRun], name: str, window: Window, statistic: Statistic, band: Band
) -> ChartSeries | None:
    """A metric of several runs as one line with a band; `None` if none of them has it."""
    curves = [points_along(store, run, name, window.x) for run in runs]
    kept = [(run, curve) for run, curve in zip(runs, curves, strict=True) if len(curve.x)]
    members = [_cut(smoothed(curve, window.smooth), window) for _, curve in kept]
    members = [curve for curve in members if len(curve.x)]
    if not members:
        return None
    total = sum(len(curve.x) for curve in members)
    seeds_only = len(group_seeds(runs)) == 1
    x, values, joined = join(members, by_record=seeds_only)
    x, values = _reduce(x, values, window.count)
    key = hashlib.blake2b(" ".join(sorted(run.id for run in runs)).encode(), digest_size=8).digest()
    middle, low, high = aggregate(values, statistic, band, seed=int.from_bytes(key, "little"))
    count = np.isfinite(values).sum(axis=0)
    buckets = BucketedSeries(x, x, low, high, middle, count)
    return ChartSeries(buckets, raw=False, total=total, members=count, joined=joined)


def join(curves: Sequence[Curve], *, by_record: bool) -> tuple[NDArray[np.float64], NDArray[np.float64], Join]:
    """Curves over one x, as rows of a table; NaN where a curve has ended.

    Curves with the same x stay as they are. Seeds of one config have a record at the same iterations: they are joined
    by its number, over the mean x. Others are interpolated between their points.
    """
    longest = max(curves, key=lambda curve: len(curve.x))
    size = len(longest.x)
    is_same = all(np.array_equal(curve.x, longest.x[: len(curve.x)]) for curve in curves)
    if is_same or by_record:
        values = np.full((len(curves), size), np.nan)
        along = np.full((len(curves), size), np.nan)
        for row, curve in enumerate(curves):
            values[row, : len(curve.y)] = curve.y
            along[row, : len(curve.x)] = curve.x
        x = longest.x if is_same else np.nanmean(along, axis=0)
        return x, values, "step" if is_same else "record"
    x = np.unique(np.concatenate([curve.x for curve in curves]))
    table = np.stack([np.interp(x, curve.x, curve.y, left=np.nan, right=np.nan) for curve in curves])
    return x, table, "interpolated"


def _reduce(
    x: NDArray[np.float64], values: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every curve's mean in buckets of equal numbers of points, if there are many."""
    if len(x) <= 2 * count:
        return x, values
    begins = np.unique(np.linspace(0, len(x), count, endpoint=False).astype(np.int64))
    there = np.isfinite(values)
    sums = np.add.reduceat(np.where(there, values, 0.0), begins, axis=1)
    sizes = np.add.reduceat(there.astype(np.int64), begins, axis=1)
    means = np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)
    return np.add.reduceat(x, begins) / np.diff(begins, append=len(x)), means


def aggregate(
    values: NDArray[np.float64], statistic: Statistic, band: Band, *, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The statistic of each column and the limits of its band; rows that are NaN there are left out.

    The 95 % interval is a percentile bootstrap with a fixed seed, so that it is the same wherever it is computed.
    """
    middle, low, high = (np.empty(values.shape[1]) for _ in range(3))
    there = np.isfinite(values)
    # Columns with the same rows are computed together.
    codes = np.packbits(there, axis=0)
    _, kinds = np.unique(codes, axis=1, return_inverse=True)
    for kind in range(int(kinds.max()) + 1):
        columns = np.flatnonzero(kinds.reshape(-1) == kind)
        part = values[there[:, columns[0]]][:, columns]
        middle[columns] = _statistic(part, statistic)
        low[columns], high[columns] = _band(part, statistic, band, middle[columns], seed)
    return middle, low, high


def _statistic(values: NDArray[np.float64], statistic: Statistic) -> NDArray[np.float64]:
    """The statistic over the second axis from the end."""
    if statistic == "mean":
        found: NDArray[np.float64] = values.mean(axis=-2)
    elif statistic == "median":
        found = np.median(values, axis=-2)
    else:
        size = values.shape[-2]
        cut = size // 4
        found = np.sort(values, axis=-2)[..., cut : size - cut, :].mean(axis=-2)
    return found


def _band(
    values: NDArray[np.float64], statistic: Statistic, band: Band, middle: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    size = len(values)
    if band == "none" or size == 1:
        return middle, middle
    if band == "std":
        spread = values.std(axis=0, ddof=1)
        return middle - spread, middle + spread
    if band == "minmax" or size < _FEWEST:
        return values.min(axis=0), values.max(axis=0)
    drawn = np.random.default_rng(seed).integers(0, size, (RESAMPLES, size))
    if statistic == "mean":
        shares = np.zeros((RESAMPLES, size))
        np.add.at(shares, (np.arange(RESAMPLES)[:, None], drawn), 1.0 / size)
        resampled = shares @ values
    else:
        parts = [_statistic(values[drawn[i : i + _CHUNK]], statistic) for i in range(0, RESAMPLES, _CHUNK)]
        resampled = np.concatenate(parts)
    low, high = np.percentile(resampled, (2.5, 97.5), axis=0)
    return low, high


def interval(values: Sequence[float], *, ids: Sequence[str]) -> tuple[float, float]:
    """The 95 % interval of the mean of some runs' results."""
    key = hashlib.blake2b(" ".join(sorted(ids)).encode(), digest_size=8).digest()
    column = np.array(values, np.float64).reshape(-1, 1)
    _, low, high = aggregate(column, "mean", "ci95", seed=int.from_bytes(key, "little"))
    return float(low[0]), float(high[0])
