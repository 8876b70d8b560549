"""Sweeps and trials in the store: rows that a running sweep writes, and pages for displays."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import psutil

from hotloop.errors import QueryError
from hotloop.text import storable
from hotloop.tracking.row_pages import RowPage

if TYPE_CHECKING:
    from hotloop.tracking.database import Database
    from hotloop.tracking.store import Store

# The version of the schema from which on there are tables for them.
_VERSION: Final = 5
# Seconds without a sign of life after which a sweep has stopped.
_SILENT: Final = 60.0
_JSON: Final = ("definition", "facts", "settings")
_TRIAL_COLUMNS: Final = (
    "trial",
    "state",
    "value",
    "confirmed",
    "confirmed_low",
    "confirmed_high",
    "steps",
    "cost",
    "seconds",
    "settings",
    "facts",
)
SORTED_BY: Final = ("trial", "value", "confirmed", "steps", "cost", "seconds")


def write_sweep(database: Database, sweep: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> None:
    """Bring a sweep's row, and these of its trials, to the store; rows that exist are replaced.

    Args:
        database: The store.
        sweep: Columns of `sweeps` except its number.
        trials: Columns of `trials` except the sweep.
    """
    with database.translated_errors(), database.transaction():
        database.insert("sweeps", list(sweep), [_values(sweep)], unique=("path",))
        ((number,),) = database.execute("SELECT number FROM sweeps WHERE path = ?", (sweep["path"],)).fetchall()
        rows = [(number, *_values({name: each[name] for name in _TRIAL_COLUMNS})) for each in trials]
        database.insert("trials", ("sweep", *_TRIAL_COLUMNS), rows, unique=("sweep", "trial"))


def sweeps_page(store: Store, *, after: int | None = None, limit: int = 100) -> RowPage:
    """Sweeps, the newest first; `after` is the number of the last one of the page before."""
    if store.schema_version < _VERSION:
        return RowPage([], None)
    behind = "" if after is None else "WHERE number < ? "
    rows = store.query_named(
        f"SELECT * FROM sweeps {behind}ORDER BY number DESC LIMIT ?",
        *(() if after is None else (after,)),
        limit + 1,
    )
    shown = [_sweep(row) for row in rows[:limit]]
    return RowPage(shown, shown[-1]["number"] if len(rows) > limit else None)


def find_stored_sweep(store: Store, name: str) -> dict[str, Any] | None:
    """The sweep with this number or name; of several of that name the newest."""
    if store.schema_version < _VERSION:
        return None
    number = int(name) if name.isdecimal() and len(name) < 18 else -1
    rows = store.query_named("SELECT * FROM sweeps WHERE number = ? OR name = ? ORDER BY number DESC", number, name)
    return _sweep(rows[0]) if rows else None


def trials_page(
    store: Store, sweep: int, *, sort: str = "trial", offset: int = 0, limit: int = 500
) -> tuple[list[dict[str, Any]], int]:
    """Trials of a sweep, sorted by a column (`-value`: descending), and how many there are; those without come last."""
    column, descending = sort.removeprefix("-"), sort.startswith("-")
    if column not in SORTED_BY:
        raise QueryError(f"trials cannot be sorted by {column[:50]!r}: expected one of {', '.join(SORTED_BY)}")
    order = f"{column} IS NULL, {column} {'DESC' if descending else 'ASC'}, trial"
    rows = store.query_named(
        f"SELECT * FROM trials WHERE sweep = ? ORDER BY {order} LIMIT ? OFFSET ?", sweep, limit, offset
    )
    ((total,),) = store.query("SELECT count(*) FROM trials WHERE sweep = ?", sweep)
    return [_parsed(row) for row in rows], int(total)


def _values(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        storable(json.dumps(value) if name in _JSON else value) if name in _JSON or isinstance(value, str) else value
        for name, value in row.items()
    )


def _sweep(row: dict[str, Any]) -> dict[str, Any]:
    """Return a sweep's row; one whose process was killed has stopped, whatever it last wrote."""
    found = _parsed(row)
    if found["status"] == "running":
        is_here = found["host"] == socket.gethostname()
        if (is_here and not psutil.pid_exists(found["process"])) or time.time() - found["seen"] > _SILENT:
            found["status"] = "stopped"
    return found


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    return {key: json.loads(value) if key in _JSON else value for key, value in row.items()}
