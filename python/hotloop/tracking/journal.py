"""The journal of a run: an append-only file of events, one JSON object per line.

It is the primary record of a run; stores are filled from it and can be rebuilt from it. Resuming removes nothing: the
next `start` event says which of the events before it are void.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hotloop.errors import JournalError
from hotloop.text import bounded, plain
from hotloop.tracking import events
from hotloop.tracking.priority import give_way

NAME: Final = "metrics.jsonl"
# Seconds after which an event has been written at the latest: the most that a SIGKILL can lose.
_FLUSH_INTERVAL: Final = 0.5
# Characters of a text in an event: an env's exception may be of any length.
_LONGEST_TEXT: Final = 10_000
# Bytes of the longest line that is read. Lines that Hotloop writes are far shorter.
MAX_LINE: Final = 1 << 22
# Ends a line that was cut short, to tell it from a damaged one. Nothing is removed: another process may be writing.
_CANCELLED: Final = b"\x18\n"
# Levels of nesting in an event. Lines with fewer brackets than this need no check.
_MAX_DEPTH: Final = 32

Event = dict[str, Any]


class Journal:
    """Appends events from a thread of its own, so that training never waits for the disk."""

    def __init__(self, path: Path) -> None:
        self._file = open_for_append(path)
        self._waiting: deque[tuple[float, Callable[[float], bytes]]] = deque()
        self._failure: OSError | None = None
        self._closing = threading.Event()
        # Only one thread at a time takes events and writes them, so that they keep their order.
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="hotloop-journal", daemon=True)
        self._thread.start()

    def append(self, make: Callable[[], Event]) -> None:
        """Queue an event; the thread calls `make` when it writes it. Raises the error of an earlier write."""
        self.append_line(lambda at: encode(at, make()))

    def append_line(self, make: Callable[[float], bytes]) -> None:
        """Queue an event that `make` encodes as a line, given the time at which it happened."""
        if self._failure is not None:
            raise self._failure
        self._waiting.append((time.time(), make))

    def flush(self) -> None:
        """Write all queued events."""
        self._write()
        if self._failure is not None:
            raise self._failure

    def sync(self) -> int:
        """Write all queued events to the disk itself; return the length of the journal in bytes."""
        self.flush()
        os.fsync(self._file)
        return os.fstat(self._file).st_size

    def close(self) -> None:
        """Write the queued events and close the file."""
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
        while not self._closing.wait(_FLUSH_INTERVAL) and self._failure is None:
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


def encode(at: float, event: Event) -> bytes:
    """The line of an event that happened at this time."""
    return (
        json.dumps({**bounded(plain(event), _LONGEST_TEXT), "at": round(at, 3)}, separators=(",", ":")).encode() + b"\n"
    )


def append_one(path: Path, event: Event) -> None:
    """Append an event to a journal that another process may be writing to."""
    file = open_for_append(path)
    try:
        write_all(file, encode(time.time(), event))
    except OSError:
        # The other process may go on writing.
        with contextlib.suppress(OSError):
            write_all(file, _CANCELLED)
        raise
    finally:
        os.close(file)


def open_for_append(path: Path) -> int:
    """Open a journal for appending. A line that a kill or a full disk cut short is cancelled; readers skip it."""
    file = _open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            write_all(file, _CANCELLED)
    except BaseException:
        os.close(file)
        raise
    return file


def write_all(file: int, data: bytes) -> None:
    """Write all bytes: one call, unless the disk takes less."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _open(path: Path, flags: int) -> int:
    """Open a regular file. Others are refused at once: a FIFO would block, a link may lead anywhere."""
    try:
        file = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise _not_a_file(path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _not_a_file(path)
    return file


def _not_a_file(path: Path) -> JournalError:
    return JournalError(f"{path} is not a regular file, so it cannot be the run's journal: move it away")


@dataclass(frozen=True, slots=True)
class Line:
    """A complete line of a journal."""

    start: int
    """Its position in the file, in bytes."""
    end: int
    event: Event | None = None
    """`None` if the line is empty or damaged."""
    damage: str = ""
    """Why it cannot be read."""


def read_lines(path: Path, start: int = 0) -> Iterator[Line]:
    """The complete lines from a position on."""
    stream = os.fdopen(_open(path, os.O_RDONLY), "rb")
    try:
        stream.seek(start)
        while text := stream.readline(MAX_LINE + 1):
            if len(text) > MAX_LINE:
                line = _skip_line(stream, start)
            else:
                line = _parse(text, start) if text.endswith(b"\n") else None
            if line is None:
                return
            yield line
            start = line.end
    finally:
        # Whoever has read enough leaves this to the garbage collector, which can only print an error.
        with contextlib.suppress(OSError):
            stream.close()


def _skip_line(stream: Any, start: int) -> Line | None:
    """A line that is too long, without keeping it in memory; nothing if it has no end yet."""
    while text := stream.readline(MAX_LINE):
        if text.endswith(b"\n"):
            return Line(start, stream.tell(), damage=f"it is longer than {MAX_LINE} bytes")
    return None


def _parse(text: bytes, start: int) -> Line:
    end = start + len(text)
    if text == b"\n":
        return Line(start, end)
    is_cancelled = text.endswith(_CANCELLED)
    try:
        # A line may lack nothing but its end.
        event = json.loads(text.removesuffix(_CANCELLED))
    except (ValueError, RecursionError):
        return Line(start, end, damage="" if is_cancelled else "it is not valid JSON")
    if text.count(b"[") + text.count(b"{") > _MAX_DEPTH and _depth_exceeds(event, _MAX_DEPTH):
        return Line(start, end, damage=f"it is nested more than {_MAX_DEPTH} levels deep")
    if damage := events.find_common_fault(event):
        return Line(start, end, damage=damage)
    return Line(start, end, event)


def _depth_exceeds(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    entries = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_depth_exceeds(entry, levels - 1) for entry in entries)


def line_number(path: Path, position: int) -> int:
    """The number of the line at a position, counted from 1."""
    number = 1
    with os.fdopen(_open(path, os.O_RDONLY), "rb") as stream:
        while position > 0 and (part := stream.read(min(position, 1 << 20))):
            number += part.count(b"\n")
            position -= len(part)
    return number


def read(path: Path, start: int = 0, most: int = 1 << 24) -> tuple[list[Event], int]:
    """The events of complete lines from a position on, about `most` bytes of them, and the position behind them."""
    found = []
    end = start
    for line in read_lines(path, start):
        end = line.end
        if line.event is not None:
            found.append(line.event)
        if end - start >= most:
            break
    return found, end


def read_all(path: Path) -> list[Event]:
    """All events of a journal that are still valid: those that resuming or a rollback made void are left out."""
    kept: list[tuple[int, Event]] = []
    for line in read_lines(path):
        if line.event is None:
            continue
        if (void := find_void(line.event)) is not None:
            kept = [(position, event) for position, event in kept if not void.covers(event, position)]
        kept.append((line.start, line.event))
    return [event for _, event in kept]


@dataclass(frozen=True, slots=True)
class Void:
    """Events that a `start` or a rollback makes void: those behind a step or, more exactly, behind a position."""

    step: int
    position: int | None
    """The length of the journal when the checkpoint was written from which the run goes on, if that is known."""

    def covers(self, event: Event, position: int) -> bool:
        """Whether an event at a position is void. Evaluations of a kept checkpoint by `hotloop eval` never are."""
        if event.get("steps", 0) > self.step:
            return True
        return self.position is not None and position >= self.position and event["event"] not in ("eval", "start")


def find_void(event: Event) -> Void | None:
    """Return which earlier events this one makes void; `None` for most events."""
    if event["event"] == "start":
        resumed = event.get("resumed_at")
        return Void(-1, None) if resumed is None else Void(resumed, event.get("valid_bytes"))
    back_to = event.get("back_to")
    return None if back_to is None else Void(back_to, None)


def valid(events: Iterable[Event], steps: int) -> list[Event]:
    """The events up to a step."""
    return [event for event in events if event.get("steps", 0) <= steps]


def event_before(path: Path, position: int) -> Event | None:
    """The event of the line that ends at a position."""
    with os.fdopen(_open(path, os.O_RDONLY), "rb") as stream:
        begin = max(0, position - MAX_LINE)
        stream.seek(begin)
        text = stream.read(position - begin)
    start = text.rfind(b"\n", 0, -1) + 1
    return _parse(text[start:], begin + start).event if text.endswith(b"\n") else None


def find_start(path: Path) -> Event | None:
    """The first readable `start` event of a journal, which has the run's id; `None` if there is none."""
    try:
        return read_start(path)
    except OSError:
        return None


def read_start(path: Path) -> Event | None:
    """The same, for whoever is going to write: a journal that cannot be read is an error."""
    for line in read_lines(path):
        if line.event is not None and line.event["event"] == "start" and not events.find_fault(line.event):
            return line.event
    return None
