"""Reading the queue of jobs: a page of jobs, events, the orchestrator's figures. For views; it changes nothing."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final, NamedTuple, Protocol

# Columns of a list; the rest is long.
_LISTED: Final = (
    *("number", "key", "kind", "name", "exact", "state", "why", "wish", "paused", "priority", "group_name", "cores"),
    *("memory", "gpus", "retries", "attempts", "needs", "not_before", "submitted", "queued", "started", "ended"),
    *("folder", "run", "result", "peak"),
)
# The version of the store's tables that brought jobs.
_SINCE: Final = 4
_ALL: Final = 2**62


class Reader(Protocol):
    """Whatever can query a store: `Store`, or the queue itself."""

    def query_named(self, sql: str, *parameters: object) -> list[dict[str, Any]]:
        """Return the rows that a statement finds, by the names of their columns."""


class JobsPage(NamedTuple):
    """Some jobs, the newest first, and how many there are."""

    jobs: list[dict[str, Any]]
    total: int


def jobs_page(
    store: Reader, *, states: Collection[str] = (), group: str | None = None, limit: int | None = 30, offset: int = 0
) -> JobsPage:
    """Return jobs with the columns of lists: the newest first, of these states and this group."""
    if not has_jobs(store):
        return JobsPage([], 0)
    conditions, values = [], []
    if states:
        conditions.append(f"state IN ({', '.join('?' * len(states))})")
        values += list(states)
    if group is not None:
        conditions.append("group_name = ?")
        values.append(group)
    where = " WHERE " + " AND ".join(conditions) if conditions else ""
    rows = store.query_named(
        f"SELECT {', '.join(_LISTED)} FROM jobs{where} ORDER BY number DESC LIMIT ? OFFSET ?",
        *values,
        _ALL if limit is None else limit,
        offset,
    )
    (total,) = store.query_named(f"SELECT count(*) AS jobs FROM jobs{where}", *values)
    return JobsPage([_readable(row) for row in rows], total["jobs"])


def find_job(store: Reader, number: int) -> dict[str, Any] | None:
    """Return one job with the columns of lists; `None` if there is no such job."""
    if not has_jobs(store):
        return None
    rows = store.query_named(f"SELECT {', '.join(_LISTED)} FROM jobs WHERE number = ?", number)
    return _readable(rows[0]) if rows else None


def job_events(store: Reader, job: int, *, limit: int = 1000) -> list[dict[str, Any]]:
    """Return the newest events of a job, the oldest first; of job 0, decisions of the orchestrator."""
    if not has_jobs(store):
        return []
    rows = store.query_named(
        "SELECT number, job, time, before, after, why, facts FROM job_events WHERE job = ? "
        "ORDER BY number DESC LIMIT ?",
        job,
        limit,
    )
    return [{**row, "facts": json.loads(row["facts"])} for row in reversed(rows)]


def job_counts(store: Reader) -> dict[str, int]:
    """Return how many jobs are in each state."""
    if not has_jobs(store):
        return {}
    return {
        row["state"]: row["jobs"]
        for row in store.query_named("SELECT state, count(*) AS jobs FROM jobs GROUP BY state")
    }


def orchestrator_status(store: Reader) -> dict[str, Any] | None:
    """Return who runs the store's jobs and its figures; `None` if there never was an orchestrator."""
    if not has_jobs(store):
        return None
    rows = store.query_named("SELECT host, process, born, boot, beat, seen, paused, facts FROM orchestrator")
    if not rows or not rows[0]["beat"]:
        return None
    return {**rows[0], "paused": bool(rows[0]["paused"]), "facts": json.loads(rows[0]["facts"])}


def has_jobs(store: Reader) -> bool:
    """Return whether the store has tables of jobs: one of an earlier version that is only read has none."""
    (found,) = store.query_named("SELECT version FROM hotloop_store")
    return int(found["version"]) >= _SINCE


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    parsed = {name: None if row[name] is None else json.loads(row[name]) for name in ("needs", "result")}
    flags = {name: bool(row[name]) for name in ("exact", "paused")}
    return {**row, **parsed, **flags}
