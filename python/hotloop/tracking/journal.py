"""The journal of a run: everything that happened, one JSON object a line, only ever appended to.

It is what a run's records are kept in; a store is fed from it and could be made anew from it. A run that goes on from a
checkpoint removes nothing: its next `start` says from which step on what stands before is void.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from hotloop.text import plain
from hotloop.tracking.priority import give_way

NAME: Final = "metrics.jsonl"
# Seconds after which an event is with the system at the latest: what a SIGKILL can lose.
_PACE: Final = 0.5

Event = dict[str, Any]


class Journal:
    """Appends events to the file from a thread of its own: who tells them never waits for the disk."""

    def __init__(self, path: Path) -> None:
        self._file = open_whole(path)
        self._waiting: deque[tuple[float, Callable[[float], bytes]]] = deque()
        self._failure: OSError | None = None
        self._closing = threading.Event()
        # Only one thread at a time takes events and writes them, so that they keep their order.
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="hotloop-journal", daemon=True)
        self._thread.start()

    def append(self, make: Callable[[], Event]) -> None:
        """Notes an event, which the thread makes when it writes it. Raises what went wrong with earlier ones."""
        self.append_line(lambda at: as_line(at, make()))

    def append_line(self, make: Callable[[float], bytes]) -> None:
        """The same for an event that is told as a line, by the time at which it happened."""
        if self._failure is not None:
            raise self._failure
        self._waiting.append((time.time(), make))

    def flush(self) -> None:
        """Comes back when all events so far are with the system."""
        self._write()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Writes what is left and lets go of the file."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        try:
            self.flush()
        finally:
            os.close(self._file)

    def _work(self) -> None:
        give_way()
        while not self._closing.wait(_PACE) and self._failure is None:
            self._write()

    def _write(self) -> None:
        with self._writing:
            lines = []
            while self._waiting:
                at, make = self._waiting.popleft()
                lines.append(make(at))
            if not lines or self._failure is not None:
                return
            try:
                write_all(self._file, b"".join(lines))
            except OSError as error:
                self._failure = error


def as_line(at: float, event: Event) -> bytes:
    """An event of a certain time as it stands in the file."""
    return json.dumps({**plain(event), "at": round(at, 3)}, separators=(",", ":")).encode() + b"\n"


def append_one(path: Path, event: Event) -> None:
    """Adds an event to a journal that another process may be writing to."""
    file = open_whole(path)
    try:
        write_all(file, as_line(time.time(), event))
    finally:
        os.close(file)


def open_whole(path: Path) -> int:
    """Opens a journal for appending; a line that a kill cut short is ended, and readers pass it over."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
    return file


def write_all(file: int, data: bytes) -> None:
    """Writes all of it: one call, unless the disk takes less."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def read(path: Path, start: int = 0, most: int = 1 << 24) -> tuple[list[Event], int]:
    """The events of whole lines from a position on, about `most` bytes of them, and the position behind them."""
    with path.open("rb") as file:
        file.seek(start)
        lines = file.readlines(most)
    events = []
    for line in lines:
        if not line.endswith(b"\n"):
            break
        start += len(line)
        try:
            event = json.loads(line)
        except ValueError:
            continue  # cut short by a kill, and ended by whoever came next
        if isinstance(event, dict) and "event" in event:
            events.append(event)
    return events, start


def read_all(path: Path) -> list[Event]:
    """Every event of a journal that is still valid: what a return to an earlier step made void is left out."""
    found: list[Event] = []
    start = 0
    while True:
        events, end = read(path, start)
        if end == start:
            return found
        start = end
        for event in events:
            back_to = goes_back_to(event)
            if back_to is not None:
                found = valid(found, back_to)
            found.append(event)


def goes_back_to(event: Event) -> int | None:
    """The step behind which everything before this event is void, if it makes anything so."""
    if event["event"] == "start":
        resumed = event.get("resumed_at")
        return -1 if resumed is None else int(resumed)
    back_to = event.get("back_to")
    return None if back_to is None else int(back_to)


def valid(events: Iterable[Event], steps: int) -> list[Event]:
    """Those that a return to a step leaves."""
    return [event for event in events if event.get("steps", 0) <= steps]


def first_start(path: Path) -> Event | None:
    """The event that opened a journal; it has the run's id. Nothing if there is none that says so."""
    try:
        with path.open("rb") as file:
            event = json.loads(file.readline())
    except (OSError, ValueError):
        return None
    return event if isinstance(event, dict) and event.get("event") == "start" and "id" in event else None
