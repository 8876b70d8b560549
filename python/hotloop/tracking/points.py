"""Every point of a run, in batches, so that a run of any length needs little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hotloop.tracking.store import KEY_NUMBER

if TYPE_CHECKING:
    from hotloop.tracking.store import Store, StoredRun

_AT_ONCE: Final = 10_000


def iter_points(
    store: Store, run: StoredRun, names: Sequence[str] | None = None
) -> Iterator[tuple[str, int, float, float]]:
    """Name, step, time and value of every point of these metrics, or of all."""
    for name in store.metric_names(run) if names is None else names:
        after = -1
        while True:
            rows = store.query(
                f"SELECT step, time, value FROM metrics WHERE run = ? AND key = {KEY_NUMBER} AND step > ? "
                "ORDER BY step LIMIT ?",
                *(run.number, name, after, _AT_ONCE),
            )
            for step, at, value in rows:
                yield name, step, at, value
            if len(rows) < _AT_ONCE:
                break
            after = rows[-1][0]
