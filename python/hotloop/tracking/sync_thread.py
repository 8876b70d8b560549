"""The thread beside a run that copies its journal to the store and to other trackers, and monitors the run.

Errors here are reported and retried; they never end a run or make it wait.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import StoreError
from hotloop.tracking import journal
from hotloop.tracking.priority import give_way

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.tracking.database import Database
    from hotloop.tracking.resources import Sampler
    from hotloop.tracking.store_url import StoreUrl
    from hotloop.tracking.trackers import Tracker

_log = logging.getLogger("hotloop")

# Seconds between reads of the journal.
_INTERVAL: Final = 1.0
# Seconds between attempts while the store is unreachable.
_RETRY_INTERVAL: Final = 1.0
_SAMPLE_FIRST: Final = 1.0
_SAMPLE_EVERY: Final = 5.0
# Seconds that the end of a run waits for the store to take the last records.
_LAST_WAIT: Final = 3.0
# Trackers may have to import a lot first, and send records far away.
_LAST_WAIT_FOR_TRACKERS: Final = 60.0
# Seconds without an iteration after which a run is stalled.
STALLED_AFTER: Final = 60.0
# Free bytes on the disk below which a notice is due.
DISK_LOW: Final = 2**30


@dataclass(frozen=True)
class Notice:
    """A notice of the thread, to be reported by the run."""

    kind: str
    what: str
    facts: dict[str, Any] = field(default_factory=dict)


class SyncThread:
    """Copies the journal in a run's folder to a store and to trackers, until `finish`.

    Args:
        folder: The folder of the run.
        url: The store, if any.
        trackers: Factories of trackers, called in the thread because imports may take long.
        record: Writes samples of resources to the journal.
        stalled_after: Seconds without a heartbeat after which a run is stalled.
        disk_low: Free bytes below which the disk is low.
    """

    def __init__(
        self,
        folder: Path,
        url: StoreUrl | None,
        trackers: Sequence[Callable[[], Tracker]],
        record: Callable[[dict[str, Any]], None],
        *,
        stalled_after: float = STALLED_AFTER,
        disk_low: int = DISK_LOW,
    ) -> None:
        self._folder = folder
        self._url = url
        self._factories = list(trackers)
        self._trackers: list[Tracker] = []
        self._record = record
        self._notices: deque[Notice] = deque()
        self._stalled_after, self._disk_low = stalled_after, disk_low
        path = folder / journal.NAME
        self._read_to = path.stat().st_size if path.exists() else 0
        self._database: Database | None = None
        self._away_since: float | None = None
        self._try_at = 0.0
        self._sampler: Sampler | None = None
        self._sample_at = time.monotonic() + _SAMPLE_FIRST
        self._is_disk_low = False
        self._beat_at = time.monotonic()
        self._is_stalled = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="hotloop-sync", daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """Heartbeat of the run."""
        now = time.monotonic()
        if self._is_stalled:
            self._is_stalled = False
            self._notices.append(
                Notice("stalled", f"nothing happened for {now - self._beat_at:.0f} s; the run continues now")
            )
        self._beat_at = now

    def notices(self) -> list[Notice]:
        """Notices since the last call."""
        return [self._notices.popleft() for _ in range(len(self._notices))]

    def finish(self) -> None:
        """Copy the remaining records, and wait for that for a limited time."""
        self._closing.set()
        self._thread.join(_LAST_WAIT_FOR_TRACKERS if self._factories or self._trackers else _LAST_WAIT)
        if self._thread.is_alive():
            where = "a tracker" if self._url is None else f"the store {self._url.shown}"
            self._notices.append(Notice("store-away", f"{where} did not take all records in time; {_KEPT}"))

    def _work(self) -> None:
        give_way()
        while not self._closing.wait(_INTERVAL):
            self._watch()
            self._sync_store()
            self._write_trackers()
        self._try_at = 0.0
        self._sync_store()
        self._write_trackers()
        if self._database is not None:
            self._database.close()
        for tracker in self._trackers:
            self._guarded(tracker, tracker.close)

    def _sync_store(self) -> None:
        if self._url is None or time.monotonic() < self._try_at:
            return
        try:
            if self._database is None:
                from hotloop.tracking.database import Database

                self._database = Database(self._url)
            from hotloop.tracking.store_sync import sync

            for sentence in sync(self._database, self._folder).damaged:
                self._notices.append(Notice("journal-damaged", sentence))
        except (StoreError, OSError) as error:
            self._note_away(error)
        else:
            if self._away_since is not None:
                seconds = time.monotonic() - self._away_since
                self._away_since = None
                self._notices.append(
                    Notice("store-back", f"the store is back after {seconds:.0f} s; it has all records")
                )

    def _note_away(self, error: Exception) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        now = time.monotonic()
        self._try_at = now + _RETRY_INTERVAL
        if self._away_since is None:
            self._away_since = now
            self._notices.append(Notice("store-away", f"{error}; {_KEPT}"))

    def _write_trackers(self) -> None:
        while self._factories:
            try:
                self._trackers.append(self._factories[0]())
            except Exception as error:
                self._note_failed("a tracker", error)
            self._factories.pop(0)
        if not self._trackers:
            return
        events, self._read_to = journal.read(self._folder / journal.NAME, self._read_to)
        for tracker in list(self._trackers):
            self._guarded(tracker, lambda tracker=tracker: tracker.write(events))  # type: ignore[misc]

    def _guarded(self, tracker: Tracker, call: Callable[[], None]) -> None:
        """Call a tracker. Foreign code must not end a run: a tracker that fails is dropped."""
        try:
            call()
        except Exception as error:
            if tracker in self._trackers:
                self._trackers.remove(tracker)
            self._note_failed(tracker.name, error)

    def _note_failed(self, name: str, error: Exception) -> None:
        self._notices.append(Notice("tracker-failed", f"{name} failed and is no longer used: {error}"))

    def _watch(self) -> None:
        now = time.monotonic()
        if not self._is_stalled and now - self._beat_at > self._stalled_after:
            self._is_stalled = True
            # Logged from here, because the thread that reports notices is the one that is stuck.
            _log.warning("%s: nothing has happened for %.0f s", self._folder.name, now - self._beat_at)
        if now < self._sample_at:
            return
        if self._sampler is None:
            from hotloop.tracking.resources import Sampler

            # CPU usage is counted from here, so the first sample is taken the next time.
            self._sampler = Sampler()
            return
        self._sample_at = now + _SAMPLE_EVERY
        self._record(self._sampler.sample())
        free = shutil.disk_usage(self._folder).free
        was_low, self._is_disk_low = self._is_disk_low, free < self._disk_low
        if self._is_disk_low and not was_low:
            self._notices.append(Notice("disk-low", f"the disk has only {free / 2**20:.0f} MB left", {"free": free}))


_KEPT: Final = "records are kept in the run's folder, and written once it can be used"
