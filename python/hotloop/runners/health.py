"""The health and the limits of a runner's workers, and the log of faults of native envs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hotloop.errors import WorkersFailedError
from hotloop.runners.reports import Fault

Listener = Callable[[Fault], None]
_HOUR = 3600.0
# Causes of faults that are reported one by one; a message that contains a number may have any number of forms.
_CAUSES = 32


@dataclass(frozen=True)
class Limits:
    """Limits of a worker; `None` means no limit."""

    step: float | None = 60.0
    """Seconds per step of one env."""
    reset: float | None = 120.0
    """Seconds per reset of one env."""
    start: float | None = 600.0
    """Seconds to start a worker and make its envs."""
    memory: int | None = None
    """Resident memory in MB."""
    cores: int | None = None
    """Number of cores."""
    restarts: int | None = 100
    """Faults within an hour."""
    numa_node: int | None = None
    """The NUMA node whose cores the workers use."""


@dataclass(frozen=True)
class WorkerHealth:
    """The health of one worker."""

    worker: int
    pid: int | None
    state: Literal["alive", "slow", "starting", "lost"]
    """`slow`: its current step has used more than half of its time limit."""
    restarts: int
    """Number of times its process was replaced."""
    faults: int
    """Faults of its envs, replaced processes included."""
    memory: int
    """Resident memory in bytes."""
    last_fault: Fault | None


def format_health(workers: Sequence[WorkerHealth]) -> str:
    """Return the workers' states and their last fault as one line."""
    states = Counter(worker.state for worker in workers)
    summary = ", ".join(f"{count} {state}" for state, count in states.items())
    faults, restarts = (sum(getattr(worker, name) for worker in workers) for name in ("faults", "restarts"))
    if not faults:
        return summary
    # The last fault is known per worker; the line names that of the worker with the most.
    worst = max((worker for worker in workers if worker.last_fault), key=lambda worker: worker.faults)
    assert worst.last_fault is not None
    why = f"{worst.last_fault.kind}: {worst.last_fault.what}"
    return f"{summary}; {faults} faults, {restarts} restarts; worker {worst.worker} {worst.faults}, last {why}"


class FaultLog:
    """Faults of envs that are reset in place: counted, reported once per cause, and limited like those of workers."""

    def __init__(self, limit: int | None, envs: int) -> None:
        self._limit = limit
        self._envs = envs
        self._times: list[tuple[float, int]] = []
        self._causes: set[str] = set()
        self._pending: list[Fault] = []
        self._count = 0

    def add(self, count: int, first: Sequence[Fault]) -> None:
        """Count faults, of which the first are known in detail.

        Raises:
            WorkersFailedError: There were more within an hour than the limit allows per env.
        """
        if not count:
            return
        self._count += count
        for fault in first:
            if fault.what not in self._causes and len(self._causes) < _CAUSES:
                self._causes.add(fault.what)
                self._pending.append(fault)
        now = time.monotonic()
        self._times = [*((t, n) for t, n in self._times if now - t < _HOUR), (now, count)]
        recent = sum(n for _, n in self._times)
        if self._limit is not None and recent > self._limit * self._envs:
            raise WorkersFailedError(
                f"the envs faulted {recent} times within an hour, more than runner.restart_limit {self._limit} for "
                f"each of {self._envs} envs; one of the last: {first[-1].report() if first else 'unknown'}"
            )

    def take(self) -> list[Fault]:
        """Return the faults with causes that were not reported yet."""
        taken, self._pending = self._pending, []
        return taken

    def take_count(self) -> int:
        """Return the number of faults since the last call."""
        count, self._count = self._count, 0
        return count
