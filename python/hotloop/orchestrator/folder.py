"""The folder of a job: its order, its lock, its log, its progress and its outcome.

The lock is held by the job's process for as long as it lives, whoever started it: this is how a new orchestrator finds
the processes of a dead one. The order says which attempt may run, so that a process that was about to start when its
orchestrator died finds out that it is not wanted any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from hotloop.files import UnreadableFileError, read_object
from hotloop.orchestrator.processes import Identity

LOG: Final = "job.log"
LOG_LIMIT: Final = 10 * 2**20
_ORDER, _OUTCOME, _LOCK, _PROGRESS, _THREADS = "order.json", "outcome.json", "process", "progress", "threads"
_PROGRESS_FORMAT: Final = struct.Struct("<qqdd")


class Progress(NamedTuple):
    """How far a training job is; written in place, several times a second."""

    steps: int
    iterations: int
    seconds: float
    """Of training."""
    fraction: float


class LockedError(Exception):
    """A job's process is alive."""


class JobFolder:
    """The folder of a job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def log(self) -> Path:
        """Standard output and error of the job's process."""
        return self.path / LOG

    @contextlib.contextmanager
    def locked(self, seconds: float = 0.0) -> Iterator[int]:
        """Hold the lock; raise `LockedError` if the job's process holds it for longer than `seconds`."""
        self.path.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            deadline = time.monotonic() + seconds
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise LockedError from None
                    time.sleep(0.005)
            yield handle
        finally:
            os.close(handle)

    def place_order(self, order: Mapping[str, Any]) -> None:
        """Let an attempt run; only with the lock."""
        for name in (_OUTCOME, _PROGRESS, _THREADS):
            (self.path / name).unlink(missing_ok=True)
        os.truncate(self.path / _LOCK, 0)
        self._replace(_ORDER, json.dumps(order))

    def withdraw_order(self) -> None:
        """Let no attempt run; only with the lock."""
        (self.path / _ORDER).unlink(missing_ok=True)

    def read_order(self, attempt: int) -> dict[str, Any] | None:
        """Return the order of an attempt; `None` if it may not run any more."""
        with contextlib.suppress(UnreadableFileError):
            order = read_object(self.path / _ORDER)
            if order.get("attempt") == attempt:
                return order
        return None

    def write_process(self, handle: int) -> None:
        """Write the identity of this process into the lock that it holds."""
        os.pwrite(handle, " ".join(map(str, Identity.own())).encode(), 0)

    def read_process(self) -> Identity | None:
        """Return the identity of the process that holds or held the lock; `None` if it has not written it yet."""
        try:
            pid, born, boot = (self.path / _LOCK).read_text().split()
            return Identity(int(pid), int(born), boot)
        except (OSError, ValueError):
            return None

    def write_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Write how the process ended, by its own account."""
        self._replace(_OUTCOME, json.dumps(outcome))

    def read_outcome(self) -> dict[str, Any] | None:
        """Return how the process ended by its own account; `None` if it left none."""
        with contextlib.suppress(UnreadableFileError):
            return read_object(self.path / _OUTCOME)
        return None

    def open_progress(self) -> int:
        """Return a handle for `write_progress`."""
        return os.open(self.path / _PROGRESS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def read_progress(self) -> Progress | None:
        """Return how far the job is; `None` if it has not said yet."""
        try:
            return Progress(*_PROGRESS_FORMAT.unpack((self.path / _PROGRESS).read_bytes()))
        except (OSError, struct.error):
            return None

    def ask_threads(self, count: int) -> None:
        """Ask the running job to use this many threads from its next iteration on."""
        self._replace(_THREADS, str(count))

    def asked_threads(self) -> int | None:
        """Return the number of threads that the job was asked to use; `None` if it may use what it likes."""
        try:
            return int((self.path / _THREADS).read_text())
        except (OSError, ValueError):
            return None

    def read_log(self, most: int) -> str:
        """Return the end of the log, up to this many bytes; empty if there is none."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most))
            return file.read().decode(errors="replace")
        return ""

    def _replace(self, name: str, text: str) -> None:
        """Replace a file, without waiting for the disk: after a power failure the attempt is repeated anyway."""
        new = self.path / f"{name}.new"
        new.write_text(text)
        new.replace(self.path / name)

    def rotate_log(self) -> None:
        """Move a long log aside, in place of the one before: the process keeps the file open, and appends."""
        with contextlib.suppress(OSError):
            if self.log.stat().st_size > LOG_LIMIT:
                with contextlib.suppress(OSError):
                    shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)


def write_progress(handle: int, progress: Progress) -> None:
    """Write how far the job is; a reader sees all of it or the one before."""
    os.pwrite(handle, _PROGRESS_FORMAT.pack(*progress), 0)
