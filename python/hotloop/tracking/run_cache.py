"""A store whose list of runs is kept in memory and refreshed by what has changed, for servers."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from hotloop.errors import StoreAwayError, StoreError
from hotloop.tracking.store import Store, StoredRun

# Seconds for which the list of a database on a server counts as current, and that of living processes.
_SERVER_AGE: Final = 0.25
_LIVENESS_AGE: Final = 1.0


class CachedStore(Store):
    """A store that rereads only runs with new events. While it is away, runs are those that were known last."""

    def __init__(self, store: str | Path | None = None, *, home: Path, read_only: bool, query_limit: float) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, StoredRun] = {}
        self._positions: dict[int, tuple[str, int]] = {}
        self._ordered: list[StoredRun] = []
        self._with_config: set[int] = set()
        self._refreshed = -math.inf
        self._is_dirty = self._has_running = False
        self.away_since: float | None = None
        """Since when the store cannot be used."""
        super().__init__(store, home=home, read_only=read_only, query_limit=query_limit)

    def runs(self, *, with_config: bool = True, numbers: Sequence[int] | None = None) -> list[StoredRun]:
        """Runs, the newest first: all of them, or those of these numbers."""
        with self._lock:
            try:
                if not self._is_current():
                    self._refresh()
                if with_config:
                    self._read_configs(list(self._known) if numbers is None else numbers)
                self.away_since = None
            except StoreError as error:
                self._is_dirty = True
                if not isinstance(error, StoreAwayError) or not self._known:
                    raise
                self.away_since = self.away_since or time.time()
            if numbers is None:
                return list(self._ordered)
            wanted = set(numbers)
            return [run for run in self._ordered if run.number in wanted]

    def position(self, run: StoredRun) -> int:
        """Position up to which the run's journal has been read; it changes with every event."""
        return self._positions.get(run.number, ("", 0))[1]

    def catch_up(self) -> None:
        """Read the journals of this store's runs that no process is about to bring to it."""
        super().catch_up()
        # A connection does not notice what it wrote itself.
        self._is_dirty = True

    def _is_current(self) -> bool:
        """Whether nothing can have changed since the last look, which is far cheaper to find out than to look."""
        age = time.monotonic() - self._refreshed
        if self._is_dirty:
            return False
        if self.url.file is None:
            return age < _SERVER_AGE
        version = (*self._database.reconnected().identity, *self.query("PRAGMA data_version")[0])
        last, self._local.version = getattr(self._local, "version", None), version
        # Whether a process still lives is not in the store.
        limit = _LIVENESS_AGE if self._has_running else math.inf
        return last == version and age < limit

    def _refresh(self) -> None:
        self._is_dirty = False
        begun = time.monotonic()
        now = {number: (id_, taken) for number, id_, taken in self.query("SELECT number, id, taken FROM runs")}
        changed = {number for number, position in now.items() if self._positions.get(number) != position}
        # Whether a process still lives is not in the store.
        changed |= {number for number, run in self._known.items() if run.status in ("running", "gone")} & now.keys()
        deleted = self._known.keys() - now.keys()
        found = super().runs(with_config=False, numbers=list(changed)) if changed else []
        same = {number for number, position in now.items() if self._positions.get(number) == position}
        self._positions, self._refreshed = now, begun
        updated = {run.number: self._with_texts(run) if run.number in same else run for run in found}
        updated = {number: run for number, run in updated.items() if self._known.get(number) != run}
        if not deleted and not updated:
            return
        for number in deleted:
            del self._known[number]
        self._known |= updated
        self._has_running = any(run.status in ("running", "gone") for run in self._known.values())
        self._with_config -= deleted | (updated.keys() - same)
        self._order()

    def _with_texts(self, run: StoredRun) -> StoredRun:
        """A run that was read without its config, with the one that is known."""
        known = self._known[run.number]
        return replace(run, config_text=known.config_text, facts_text=known.facts_text)

    def _read_configs(self, numbers: Sequence[int]) -> None:
        missing = [number for number in numbers if number in self._known and number not in self._with_config]
        if missing:
            self._known |= {run.number: run for run in super().runs(numbers=missing)}
            self._with_config.update(missing)
            self._order()

    def _order(self) -> None:
        self._ordered = sorted(self._known.values(), key=lambda run: (run.created, run.number), reverse=True)
