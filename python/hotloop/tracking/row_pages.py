"""Pages of a run's evaluations, checkpoints, events and episodes; its resources in buckets; its metrics in brief."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from hotloop.tracking.queries import bucketed

if TYPE_CHECKING:
    from hotloop.tracking.store import Store, StoredRun

Table = Literal["evaluations", "checkpoints", "events", "episodes"]

# The column that orders each table, by which pages go on.
_ORDER: Final = {"evaluations": "number", "events": "number", "checkpoints": "step", "episodes": "step"}
_JSON: Final = ("facts", "sample")
_UNSHOWN: Final = ("run", "position")


@dataclass(frozen=True)
class RowPage:
    """Some rows of a table, in order."""

    rows: list[dict[str, Any]]
    next: int | None
    """Pass as `after` for the rows that follow; `None` on the last page."""


def row_page(store: Store, table: Table, run: StoredRun, *, after: int | None = None, limit: int = 500) -> RowPage:
    """Rows of a run behind `after`, the number of an evaluation or event, or the step of another row."""
    order = _ORDER[table]
    behind = "" if after is None else f" AND {order} > ?"
    rows = store.query_named(
        f"SELECT * FROM {table} WHERE run = ?{behind} ORDER BY {order} LIMIT ?",
        *(run.number, *(() if after is None else (after,)), limit + 1),
    )
    shown = [_parsed(row) for row in rows[:limit]]
    return RowPage(shown, shown[-1][order] if len(rows) > limit else None)


def rows_from(store: Store, table: str, run: StoredRun, position: int) -> list[dict[str, Any]]:
    """Rows whose events lie behind a position of the run's journal."""
    rows = store.query_named(
        f"SELECT * FROM {table} WHERE run = ? AND position >= ? ORDER BY position", run.number, position
    )
    return [_parsed(row) for row in rows]


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    return {key: json.loads(value) if key in _JSON else value for key, value in row.items() if key not in _UNSHOWN}


def last_steps(store: Store, run: StoredRun) -> dict[str, int]:
    """The step of the last point of each metric of a run."""
    rows = store.query(
        "SELECT name, last FROM (SELECT name, (SELECT step FROM metrics WHERE run = ? AND key = metric_keys.number "
        "ORDER BY step DESC LIMIT 1) AS last FROM metric_keys) AS found WHERE last IS NOT NULL",
        run.number,
    )
    return dict(rows)


def metric_summaries(store: Store, run: StoredRun, *, brief: bool = False) -> list[dict[str, Any]]:
    """The last value of each metric and, unless it is to be brief, lowest, highest and count of all its points."""
    rows = store.query(
        "SELECT number, name, last FROM (SELECT number, name, (SELECT value FROM metrics WHERE run = ? "
        "AND key = metric_keys.number ORDER BY step DESC LIMIT 1) AS last FROM metric_keys) AS found "
        "WHERE last IS NOT NULL ORDER BY name",
        run.number,
    )
    whole: dict[int, tuple[float, float, int]] = {}
    if not brief:
        counted = store.query(
            "SELECT key, min(value), max(value), count(*) FROM metrics WHERE run = ? GROUP BY key", run.number
        )
        whole = {key: (low, high, count) for key, low, high, count in counted}
    result = []
    for number, name, last in rows:
        low, high, count = whole.get(number, (None, None, None))
        result.append({"name": name, "last": last, "lowest": low, "highest": high, "count": count})
    return result


def resource_usage(store: Store, run: StoredRun, points: int) -> list[dict[str, Any]]:
    """CPU and memory of each consumer in at most so many buckets of equal time, with the newest facts of each."""
    ((first, last),) = store.query("SELECT min(time), max(time) FROM resources WHERE run = ?", run.number)
    if first is None:
        return []
    width = (last - first) / points or 1.0
    bucket = store.floor("(time - ?) / ?")
    rows = store.query(
        f"SELECT who, max(time), max(step), avg(cpu), max(memory) FROM "
        f"(SELECT who, time, step, cpu, memory, {bucket} AS bucket FROM resources WHERE run = ?) AS cut "
        "GROUP BY who, bucket ORDER BY who, bucket",
        *(first, width, run.number),
    )
    newest = store.query(
        "SELECT who, facts FROM resources WHERE number IN "
        "(SELECT max(number) FROM resources WHERE run = ? GROUP BY who)",
        run.number,
    )
    facts = {who: json.loads(text) for who, text in newest}
    found: dict[str, dict[str, Any]] = {}
    for who, *values in rows:
        columns = found.setdefault(
            who, {"who": who, "time": [], "step": [], "cpu": [], "memory": [], "facts": facts.get(who, {})}
        )
        for name, value in zip(("time", "step", "cpu", "memory"), values, strict=True):
            columns[name].append(value)
    return list(found.values())


def sparkline(store: Store, run: StoredRun, name: str, count: int) -> list[float]:
    """At most `count` values that show the course of a metric."""
    values: Sequence[float] = bucketed(store, run, [name], count=count // 2)[name].mean.tolist()
    return list(values)
