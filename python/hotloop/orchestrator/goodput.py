"""Goodput: the work that jobs get done, measured in seconds of one thread at the best speed such a job ever showed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.orchestrator.machine import cpu_time, resident

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotloop.orchestrator.attempts import Attempt


class Goodput:
    """Counts work and the time that threads wait for cores, between decisions about the limit."""

    def __init__(self) -> None:
        self._best: dict[str, float] = {}
        self._work = 0.0
        self._running = self._waiting = 0

    def sample(self, attempt: Attempt, pids: Iterable[int], seconds: float) -> None:
        """Add what a running attempt did in the last `seconds`."""
        pids = list(pids)
        before, now = attempt.cpu, cpu_time(pids)
        attempt.cpu = now
        attempt.resident = resident(pids)
        attempt.peak = max(attempt.peak, attempt.resident)
        on_core = max(0, now.running - before.running)
        self._running += on_core
        self._waiting += max(0, now.waiting - before.waiting)
        progress = attempt.folder.read_progress()
        if progress is not None:
            self._add_steps(attempt, progress.steps, seconds)
        elif attempt.job.kind != "train":
            self._work += on_core / 1e9

    def finish(self, attempt: Attempt) -> None:
        """Add what an attempt did since its last sample."""
        progress = attempt.folder.read_progress()
        if progress is not None:
            whole = progress.seconds if attempt.steps == 0 else 0.0
            self._add_steps(attempt, progress.steps, whole)

    def _add_steps(self, attempt: Attempt, steps: int, seconds: float) -> None:
        new, attempt.steps = max(0, steps - attempt.steps), max(steps, attempt.steps)
        shape = attempt.job.shape
        if seconds > 0:
            self._best[shape] = max(self._best.get(shape, 0.0), new / seconds / attempt.threads)
        if best := self._best.get(shape):
            self._work += new / best

    def take(self, seconds: float) -> tuple[float, float]:
        """Return work per second and the fraction of time that threads waited for cores, since the last call."""
        work, running, waiting = self._work, self._running, self._waiting
        self._work, self._running, self._waiting = 0.0, 0, 0
        return work / seconds, waiting / (running + waiting) if running + waiting else 0.0
