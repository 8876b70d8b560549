"""The monitor: measures what running jobs get done and use, and moves the limit accordingly."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from hotloop import _core
from hotloop.orchestrator import machine
from hotloop.orchestrator.goodput import Goodput
from hotloop.orchestrator.limit import DEATH_WINDOW, Limit, Signals, adapt
from hotloop.orchestrator.processes import sessions

if TYPE_CHECKING:
    from hotloop.config.orchestrator import OrchestratorConfig
    from hotloop.orchestrator.attempts import Attempt


class Decision(NamedTuple):
    """A decision about the limit that differs from the one before."""

    what: str
    facts: dict[str, Any]
    """The signals that led to it."""


class Monitor:
    """Signals of the machine and of running jobs, and the limit that follows from them.

    Args:
        settings: Limits and how they adapt.
        fixed: A fixed limit in place of the adaptive one.
    """

    def __init__(self, settings: OrchestratorConfig, fixed: int | None) -> None:
        self._settings = settings
        self.is_fixed = fixed is not None
        self._limit = Limit(min(settings.base_limit, settings.max_concurrent_tasks) if fixed is None else fixed)
        self.cores = _core.usable_cores()
        self.memory_short = False
        """Whether jobs must make room."""
        self._goodput = Goodput()
        self._deaths: deque[bool] = deque(maxlen=DEATH_WINDOW)
        self._figures: dict[str, Any] = {"retries": {}, "started": 0, "waited": 0.0}

    @property
    def limit(self) -> int:
        """Cores' worth of jobs that may run at a time."""
        return self._limit.value

    def count_start(self, waited: float) -> None:
        """Count a job that started after so many seconds in the queue."""
        self._figures["started"] += 1
        self._figures["waited"] += waited

    def count_end(self, attempt: Attempt, *, died: bool) -> None:
        """Count the end of an attempt, and the work it did since its last sample."""
        self._deaths.append(died)
        self._goodput.finish(attempt)

    def count_retry(self, cause: str) -> None:
        """Count an attempt that is repeated."""
        retries = self._figures["retries"]
        retries[cause] = retries.get(cause, 0) + 1

    def sample(self, attempts: Collection[Attempt], seconds: float) -> None:
        """Measure what running jobs did and used in the last seconds."""
        if not attempts:
            self.memory_short = False
            return
        members = sessions()
        for attempt in attempts:
            if attempt.identity is not None:
                self._goodput.sample(attempt, members.get(attempt.identity.pid, []), seconds)
        self.memory_short = machine.is_memory_short(machine.memory(), machine.pressure().get("memory", 0.0))

    def decide(self, attempts: Collection[Attempt], queued: int, seconds: float, *, gpu_wait: float) -> Decision | None:
        """Move the limit by what was measured in the last seconds; return the decision if it is a new one."""
        goodput, stall = self._goodput.take(seconds)
        pressure = machine.pressure()
        seen = Signals(
            running=sum(attempt.job.cores for attempt in attempts),
            queued=queued,
            stall=round(stall, 4),
            goodput=round(goodput, 4),
            memory_pressure=self.memory_short,
            deaths=sum(self._deaths),
            attempts=len(self._deaths),
            gpu_wait=gpu_wait,
        )
        self._figures |= {"goodput": seen.goodput, "pressure": {**pressure, "stall": 100 * seen.stall}}
        if self.is_fixed:
            return None
        before, (self._limit, why) = self._limit, adapt(self._limit, seen, self._settings)
        if self.limit < before.value and seen.deaths:
            # The next ones are counted at the new limit.
            self._deaths.clear()
        what = f"limit {before.value} -> {self.limit}: {why}"
        is_new = what != self._figures.get("decision") or self.limit != before.value
        self._figures["decision"] = what
        return Decision(what, {**vars(seen), "pressure": pressure}) if is_new else None

    def figures(self, running: int) -> dict[str, Any]:
        """Return figures for views."""
        memory = machine.memory()
        return {
            **self._figures,
            "limit": self.limit,
            "fixed": self.is_fixed,
            "running": running,
            "cores": self.cores,
            "gpus": machine.gpu_count(),
            "memory_total": memory.total - memory.spare,
            "memory_available": memory.available,
        }
