"""The newest figures of some runs, for monitoring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.tracking.store import Store


def alert_counts(store: Store) -> dict[str, int]:
    """Return the number of warnings and errors of each kind."""
    rows = store.query("SELECT kind, count(*) FROM events WHERE level IN ('warning', 'error') GROUP BY kind")
    return {kind: int(count) for kind, count in rows}


def event_counts(store: Store, numbers: Sequence[int]) -> dict[tuple[int, str], int]:
    """Return the number of events of each kind of these runs."""
    if not numbers:
        return {}
    marks = ", ".join("?" * len(numbers))
    rows = store.query(f"SELECT run, kind, count(*) FROM events WHERE run IN ({marks}) GROUP BY run, kind", *numbers)
    return {(run, kind): int(count) for run, kind, count in rows}


def newest_usage(store: Store, numbers: Sequence[int]) -> dict[int, tuple[float | None, float | None]]:
    """Cores and memory of the processes of these runs, by their newest samples."""
    if not numbers:
        return {}
    marks = ", ".join("?" * len(numbers))
    rows = store.query(
        "SELECT run, cpu, memory FROM resources WHERE number IN "
        f"(SELECT max(number) FROM resources WHERE who = 'process' AND run IN ({marks}) GROUP BY run)",
        *numbers,
    )
    return {run: (cpu, memory) for run, cpu, memory in rows}
