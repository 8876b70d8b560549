"""Queries for displays that page through runs, follow them, and draw metrics of any length."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hotloop.errors import QueryError
from hotloop.tracking.curves import Curve
from hotloop.tracking.filters import Condition, RunValues, sort_key
from hotloop.tracking.store import KEY_NUMBER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.tracking.store import Store, StoredRun

Axis = Literal["step", "time", "seconds", "episodes"]

# The x of a point. Seconds of training and episodes are metrics themselves: those of the last record count.
_RECORDED: Final = (
    "(SELECT other.value FROM metrics AS other WHERE other.run = metrics.run "
    f"AND other.key = {KEY_NUMBER} AND other.step <= metrics.step ORDER BY other.step DESC LIMIT 1)"
)


@dataclass(frozen=True)
class Page:
    """Some of the runs that match a query."""

    runs: list[StoredRun]
    values: list[list[Any]]
    """The values of the columns of each run."""
    total: int
    """Number of runs that match."""
    cursor: str | None
    """Start of the next page; `None` on the last."""


def page(
    store: Store,
    *,
    where: Sequence[str] = (),
    text: str = "",
    sort: str = "-created",
    columns: Sequence[str] = (),
    limit: int | None = None,
    cursor: str | None = None,
) -> Page:
    """Runs that match all conditions and have `text` in their name or env.

    Pages stay consistent while runs are added: a cursor is the position of the last run in the order, not a count.
    """
    conditions = [Condition.parse(entry) for entry in where]
    descending, key = sort.startswith("-"), sort.removeprefix("-")
    values = RunValues(store, [*columns, key, *(condition.key for condition in conditions)])
    found = [run for run in values.runs if text in f"{run.name} {run.env}"] if text else values.runs
    if conditions:
        found = [run for run in found if all(c.matches(values.of(run, c.key)) for c in conditions)]

    def order(run: StoredRun) -> tuple[Any, int]:
        return sort_key(values.of(run, key), descending=descending), run.number

    if sort != "-created":
        # Runs come the newest first.
        found.sort(key=order, reverse=descending)
    rest = found
    if cursor is not None:
        value, number = _decode(cursor)
        last = (sort_key(value, descending=descending), number)
        rest = [run for run in found if (order(run) < last if descending else order(run) > last)]
    some = rest if limit is None else rest[:limit]
    more = len(some) < len(rest)
    end = _encode(values.of(some[-1], key), some[-1].number) if more and some else None
    return Page(some, [[values.of(run, name) for name in columns] for run in some], len(found), end)


def _encode(value: Any, number: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([value, number]).encode()).decode()


def _decode(cursor: str) -> tuple[Any, int]:
    try:
        value, number = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return value, int(number)
    except (ValueError, TypeError):
        raise QueryError(f"the cursor {cursor[:50]!r} is none that a page ended with") from None


@dataclass(frozen=True)
class Changes:
    """Changes in a store between two queries."""

    runs: list[StoredRun]
    """New runs and those with new events, without their configs."""
    deleted: list[int]
    """Numbers of runs that are gone."""
    positions: dict[int, int]
    """Position up to which each run's journal has been read, for the next query."""


def changed_since(store: Store, positions: Mapping[int, int]) -> Changes:
    """The changes since an earlier look, of which these are the `positions`."""
    now: dict[int, int] = dict(store.query("SELECT number, taken FROM runs"))
    changed = [number for number, taken in now.items() if positions.get(number) != taken]
    deleted = [number for number in positions if number not in now]
    return Changes(store.runs(with_config=False, numbers=changed), deleted, now)


@dataclass(frozen=True)
class BucketedSeries:
    """A metric in buckets of equal width over x, or as its points if there are few; empty buckets are left out."""

    first: NDArray[np.float64]
    """The x of the first point of each bucket."""
    last: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    count: NDArray[np.int64]
    """Number of points of each bucket."""


def bucketed(
    store: Store,
    run: StoredRun,
    names: Sequence[str],
    x: Axis = "step",
    low: float | None = None,
    high: float | None = None,
    count: int = 600,
) -> dict[str, BucketedSeries]:
    """Metrics over [low, high] in at most `count` buckets, computed by the database.

    Up to twice as many points are returned as they are. Extremes are never lost.
    """
    if count < 1:
        raise QueryError(f"the number of buckets is {count}: expected 1 or more")
    along, parameters = _axis(x)
    return {name: _bucketed(store, run, name, (along, parameters), low, high, count) for name in names}


def _axis(x: str) -> tuple[str, tuple[str, ...]]:
    if x in ("step", "time"):
        return x, ()
    if x in ("seconds", "episodes"):
        return _RECORDED, (x,)
    raise QueryError(f"x is {x!r}: expected step, time, seconds or episodes")


def _bucketed(
    store: Store,
    run: StoredRun,
    name: str,
    axis: tuple[str, tuple[str, ...]],
    low: float | None,
    high: float | None,
    count: int,
) -> BucketedSeries:
    along, parameters = axis
    points = f"(SELECT {along} AS x, step, value FROM metrics WHERE run = ? AND key = {KEY_NUMBER}) AS points"
    given = (*parameters, run.number, name)
    window, limits = "x IS NOT NULL", []
    for sign, limit in ((">=", low), ("<=", high)):
        if limit is not None:
            window += f" AND x {sign} ?"
            limits.append(float(limit))
    begin, end, size = store.query(f"SELECT min(x), max(x), count(*) FROM {points} WHERE {window}", *given, *limits)[0]
    if size <= 2 * count:
        rows = store.query(f"SELECT x, value FROM {points} WHERE {window} ORDER BY step", *given, *limits)
        table = np.array(rows, np.float64).reshape(-1, 2)
        along_x, values = table[:, 0], table[:, 1]
        return BucketedSeries(along_x, along_x, values, values, values, np.ones(len(values), np.int64))
    begin = float(begin if low is None else low)
    width = (float(end if high is None else high) - begin) / count or 1.0
    bucket = store.floor("(x - ?) / ?")
    rows = store.query(
        f"SELECT min(x), max(x), min(value), max(value), avg(value), count(*) FROM "
        f"(SELECT x, value, CASE WHEN {bucket} < ? THEN {bucket} ELSE ? END AS bucket FROM {points} WHERE {window}) "
        "AS cut GROUP BY bucket ORDER BY bucket",
        *(begin, width, count, begin, width, count - 1),
        *given,
        *limits,
    )
    table = np.array(rows, np.float64)
    first, last, least, most, mean, sizes = table.T
    return BucketedSeries(first, last, least, most, mean, sizes.astype(np.int64))


def points_along(store: Store, run: StoredRun, name: str, x: Axis = "step") -> Curve:
    """Every point of a metric over an axis."""
    along, parameters = _axis(x)
    rows = store.query(
        f"SELECT x, value FROM (SELECT {along} AS x, step, value FROM metrics WHERE run = ? AND key = {KEY_NUMBER}) "
        "AS points WHERE x IS NOT NULL ORDER BY step",
        *(*parameters, run.number, name),
    )
    table = np.fromiter(chain.from_iterable(rows), np.float64, 2 * len(rows)).reshape(-1, 2)
    return Curve(table[:, 0].copy(), table[:, 1].copy())


def tail(
    store: Store, run: StoredRun, names: Sequence[str], after_step: int
) -> dict[str, list[tuple[int, float, float]]]:
    """The points of metrics behind a step: step, time and value of each."""
    return {
        name: store.query(
            f"SELECT step, time, value FROM metrics WHERE run = ? AND key = {KEY_NUMBER} AND step > ? ORDER BY step",
            *(run.number, name, after_step),
        )
        for name in names
    }
