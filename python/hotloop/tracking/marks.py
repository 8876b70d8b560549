"""Marks that people put on runs: tags, a note, pinned, hidden; and which alerts were seen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hotloop.text import storable
from hotloop.tracking.database import Database

if TYPE_CHECKING:
    from hotloop.tracking.store import Store, StoredRun

DEFAULTS: Final[dict[str, Any]] = {"tags": [], "note": "", "pinned": False, "hidden": False}
# The version of the schema from which on there is a table for them.
_VERSION: Final = 3
_SEEN: Final = "seen."
_ALERTS: Final = "level IN ('warning', 'error')"


def read_marks(store: Store) -> dict[int, dict[str, Any]]:
    """Tags, note, pinned and hidden of every run that has any, by its number."""
    found: dict[int, dict[str, Any]] = {}
    if store.schema_version < _VERSION:
        return found
    names = list(DEFAULTS)
    sql = f"SELECT run, key, value FROM marks WHERE key IN ({', '.join('?' * len(names))})"
    for run, key, value in store.query(sql, *names):
        found.setdefault(run, dict(DEFAULTS))[key] = json.loads(value)
    return found


def write_marks(store: Store, run: StoredRun, changes: Mapping[str, Any]) -> None:
    """Set marks of a run; a default value removes one."""
    with Database(store.url, create=False) as database, database.translated_errors(), database.transaction():
        for key, value in changes.items():
            if value == DEFAULTS.get(key):
                database.execute("DELETE FROM marks WHERE run = ? AND key = ?", (run.number, key))
            else:
                row = (run.number, key, json.dumps(_storable(value)))
                database.insert("marks", ("run", "key", "value"), [row], unique=("run", "key"))


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    return [storable(entry) for entry in value] if isinstance(value, list) else value


def alerts(store: Store, limit: int, before: float | None = None) -> list[dict[str, Any]]:
    """Warnings and errors of all runs, the newest first."""
    has_marks = store.schema_version >= _VERSION
    seen = f"EXISTS (SELECT 1 FROM marks WHERE run = events.run AND key = '{_SEEN}' || position)" if has_marks else "0"
    window = "" if before is None else " AND events.time < ?"
    rows = store.query_named(
        "SELECT events.number AS number, step, time, kind, level, what, events.facts AS facts, runs.id AS run, "
        f"runs.name AS run_name, runs.env AS env, {seen} AS seen FROM events JOIN runs ON runs.number = events.run "
        f"WHERE {_ALERTS}{window} ORDER BY time DESC, events.number DESC LIMIT ?",
        *(() if before is None else (before,)),
        limit,
    )
    return [{**row, "facts": json.loads(row["facts"]), "seen": bool(row["seen"])} for row in rows]


def count_unseen(store: Store) -> int:
    """Return the number of unseen alerts."""
    if store.schema_version < _VERSION:
        seen = ""
    else:
        seen = f" AND NOT EXISTS (SELECT 1 FROM marks WHERE run = events.run AND key = '{_SEEN}' || position)"
    return int(store.query(f"SELECT count(*) FROM events WHERE {_ALERTS}{seen}")[0][0])


def mark_seen(store: Store, number: int) -> bool:
    """Note that an alert was seen; return whether there is such an alert."""
    rows: Sequence[tuple[int, int]] = store.query(
        f"SELECT run, position FROM events WHERE number = ? AND {_ALERTS}", number
    )
    if not rows:
        return False
    run, position = rows[0]
    with Database(store.url, create=False) as database, database.translated_errors():
        row = (run, f"{_SEEN}{position}", "true")
        database.insert("marks", ("run", "key", "value"), [row], unique=("run", "key"))
    return True
