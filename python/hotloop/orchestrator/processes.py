"""Processes that outlive the one that started them: identity, life and end."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
# Positions in /proc/PID/stat, counted after the name, which may contain spaces.
_SESSION: Final = 3
_START: Final = 19


class Identity(NamedTuple):
    """A process, for good: its number may be used again, but not with this start time since this boot."""

    pid: int
    born: int
    """Start time in clock ticks since the boot."""
    boot: str

    @classmethod
    def own(cls) -> Identity:
        """Return the identity of this process."""
        pid = os.getpid()
        return cls(pid, int(_stat(pid)[_START]), boot_id())

    @property
    def is_alive(self) -> bool:
        """Whether the process exists on this machine; one that ended and waits to be collected does not."""
        try:
            stat = _stat(self.pid)
        except (OSError, IndexError):
            return False
        return self.boot == boot_id() and int(stat[_START]) == self.born and stat[0] not in "ZX"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill_session(self) -> None:
        """Kill the process and every process of its session; none is left when all have been collected."""
        if self.boot != boot_id():
            return
        if not self.is_alive and _exists(self.pid):
            # Another process has the number: the kernel gives it away only when nothing is left of the session.
            with contextlib.suppress(OSError, IndexError):
                if int(_stat(self.pid)[_START]) != self.born:
                    return
        for pid in sessions().get(self.pid, []):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@cache
def boot_id() -> str:
    """Return the identity of this boot of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def sessions() -> dict[int, list[int]]:
    """Return the running processes of each session; those that ended and wait to be collected are left out."""
    found: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                stat = _stat(int(entry.name))
                if stat[0] not in "ZX":
                    found.setdefault(int(stat[_SESSION]), []).append(int(entry.name))
    return found


def _exists(pid: int) -> bool:
    return (_PROC / str(pid)).exists()


def _stat(pid: int) -> list[str]:
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
