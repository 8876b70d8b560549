"""An attempt of a job: its process, its use of the machine, and the work it has done."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hotloop.orchestrator.folder import JobFolder, LockedError
from hotloop.orchestrator.machine import CpuTime

if TYPE_CHECKING:
    from hotloop.orchestrator.job import Job
    from hotloop.orchestrator.processes import Identity

# Seconds within which the launcher reports the end of a process.
_REPORTED_WITHIN: Final = 1.0
# Seconds for which a launched process may not have shown itself.
_PATIENCE: Final = 30.0


@dataclass
class Attempt:
    """A job that is running, by this orchestrator or since before it started."""

    job: Job
    folder: JobFolder
    threads: int
    memory: int
    """Bytes that it is expected to need."""
    launched: float | None = None
    """When this orchestrator launched it, by the monotonic clock; `None` if it was adopted."""
    pid: int | None = None
    status: int | None = None
    """Exit status, once the launcher has reported it."""
    identity: Identity | None = None
    vanished: float | None = None
    """When its process was found to be gone, before anyone reported how it ended."""
    asked_to_stop: float | None = None
    gpus: list[int] = field(default_factory=list)
    cpu: CpuTime = field(default=CpuTime(0, 0))
    resident: int = 0
    peak: int = 0
    steps: int = 0
    """Steps that were counted as work already."""

    def is_over(self) -> bool:
        """Return whether the process has ended."""
        if self.status is not None:
            return True
        if self.identity is None:
            self.identity = self.folder.read_process()
        if self.identity is not None:
            if self.identity.is_alive:
                return False
            # The launcher reports how it ended in a moment, unless it died itself.
            self.vanished = self.vanished or time.monotonic()
            return self.launched is None or time.monotonic() - self.vanished > _REPORTED_WITHIN
        if self.launched is not None and time.monotonic() - self.launched < _PATIENCE:
            return False
        try:
            with self.folder.locked():
                return True
        except LockedError:
            return False

    def stop(self, grace: float) -> None:
        """Ask the process to end with a checkpoint; kill it and all it started if it has not after `grace` seconds."""
        if self.identity is None:
            return
        now = time.monotonic()
        if self.asked_to_stop is None:
            self.asked_to_stop = now
            self.identity.signal(signal.SIGTERM)
        elif now - self.asked_to_stop > grace:
            self.identity.kill_session()
