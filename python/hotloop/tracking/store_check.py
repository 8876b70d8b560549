"""The check of a store's file: damage that SQLite finds, and values that Hotloop never writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hotloop.tracking.database import Database

# SQLite takes any value in any column; these are the types by the declared ones.
_TYPES: Final = {
    "TEXT": ("text", "null"),
    "BIGINT": ("integer", "null"),
    "INTEGER": ("integer", "null"),
    "DOUBLE PRECISION": ("real", "integer", "null"),
}
_JSON: Final = {"config": "object", "facts": "object", "sample": "array"}


def find_damage(database: Database) -> str | None:
    """Return what is wrong with the file of a store; `None` if nothing is found. Takes a while with a large store."""
    (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        return " ".join(str(found).split())
    tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    for (table,) in tables.fetchall():
        for _, column, declared, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
            types = ", ".join(f"'{name}'" for name in _TYPES.get(declared, ()))
            wrong = [f"typeof({column}) NOT IN ({types})"] if types else []
            if (kind := _JSON.get(column)) is not None:
                wrong.append(f"CASE WHEN json_valid({column}) THEN json_type({column}) ELSE '' END <> '{kind}'")
            wrong += [f"{column} GLOB '*[^0-9]*'"] if column == "seed" else []
            for condition in wrong:
                if database.execute(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1").fetchone() is not None:
                    return f"{table}.{column} holds an invalid value"
    return None
