"""The faults of a pool's workers: counted per worker, reported to listeners, and limited."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from hotloop.errors import WorkersFailedError
from hotloop.runners.reports import Fault, FaultReport

if TYPE_CHECKING:
    from hotloop.runners.health import Limits, Listener

_HOUR: Final = 3600.0
_KEPT: Final = 1000
MAX_FAILED_STARTS: Final = 3
"""Starts in a row that may fail: more is no accident."""


@dataclass
class WorkerRecord:
    """The history of one worker over all its processes."""

    restarts: int = 0
    faults: int = 0
    last: Fault | None = None
    failed_starts: int = 0
    """Starts in a row that failed."""
    times: list[float] = field(default_factory=list)
    """When it faulted, within the last hour."""

    def last_report(self) -> str:
        """Return the last fault as the end of an error message."""
        return "" if self.last is None else f"the last time {self.last.report()}"


class WorkerFaults:
    """The faults of all workers of a pool."""

    def __init__(self, workers: int, limits: Limits) -> None:
        self.records = [WorkerRecord() for _ in range(workers)]
        self.listeners: list[Listener] = []
        self._limit = limits.restarts
        self._pending: list[Fault] = []
        self._pending_count = 0
        self._failure: str | None = None

    @property
    def broken(self) -> bool:
        """Whether a worker exceeded its limits; lost workers are not replaced any more then."""
        return self._failure is not None

    def raise_if_broken(self) -> None:
        """Raise the `WorkersFailedError` that was raised when a worker exceeded its limits."""
        if self._failure is not None:
            raise WorkersFailedError(self._failure)

    def add(self, worker: int, fault: Fault) -> None:
        """Count and report a fault.

        Raises:
            WorkersFailedError: The worker faulted more often within an hour than `runner.restart_limit` allows.
        """
        record = self.records[worker]
        record.faults += 1
        record.last = fault
        now = time.monotonic()
        # An env whose state cannot be saved plays on.
        if fault.kind != "state":
            record.times = [*(t for t in record.times if now - t < _HOUR), now]
        self._pending_count += 1
        self._pending = [*self._pending[-_KEPT:], fault]
        for listener in self.listeners:
            listener(fault)
        if self._limit is not None and len(record.times) > self._limit:
            self._fail(
                worker,
                f"faulted {len(record.times)} times within an hour, more than runner.restart_limit {self._limit}",
            )

    def check_starts(self, worker: int) -> None:
        """Raise `WorkersFailedError` if too many starts of a worker failed in a row."""
        failed = self.records[worker].failed_starts
        if failed >= MAX_FAILED_STARTS:
            self._fail(worker, f"failed {failed} times to start")

    def fail_call(self, worker: int, method: str) -> NoReturn:
        """Raise `WorkersFailedError`: each process of a worker was lost while it executed a call."""
        self._fail(worker, f"was lost {MAX_FAILED_STARTS} times during {method}")

    def _fail(self, worker: int, what: str) -> NoReturn:
        self._failure = f"worker {worker} {what}: {self.records[worker].last_report()}"
        raise WorkersFailedError(self._failure)

    def take(self) -> FaultReport:
        """Return the faults since the last call."""
        report = FaultReport(self._pending_count, tuple(self._pending))
        self._pending_count, self._pending = 0, []
        return report
