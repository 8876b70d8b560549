"""Events of a run on their way to its recorder and its callbacks, and the pace at which progress is shown."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hotloop.training.callbacks import (
    Callback,
    ControlReport,
    EvaluationProgress,
    ProgressReport,
    TroubleReport,
    ValuesReport,
)
from hotloop.training.plan import PACE

if TYPE_CHECKING:
    from hotloop.runners.reports import Fault
    from hotloop.training.control import Decision
    from hotloop.training.counters import Counters
    from hotloop.training.recorder import Recorder
    from hotloop.training.runs import RunFolder
    from hotloop.training.session_protocol import TrainingSession


class Reporter:
    """Sends every event to the recorder first, then to the callbacks.

    Args:
        folder: The run's folder.
        recorder: Writes the journal.
        callbacks: Listeners.
    """

    def __init__(self, folder: RunFolder, recorder: Recorder, callbacks: Sequence[Callback]) -> None:
        self.stop_requested = False
        """Whether a callback returned `False`."""
        self._folder = folder
        self._recorder = recorder
        self._callbacks = tuple(callbacks)
        self._shown_at = (0, 0.0)
        self._evaluating_shown = 0.0

    def resume(self, counters: Counters) -> None:
        """Measure speed from these counters on."""
        self._shown_at = (counters.steps, counters.seconds)

    def emit(self, event: str, report: object, counters: Counters) -> None:
        """Record an event and call the method of that name of every callback."""
        with self._folder.writing():
            getattr(self._recorder, event)(report)
        if event == "end":
            self._report_last_notices(counters)
        self._notify(event, report, counters)

    def trouble(
        self,
        counters: Counters,
        kind: str,
        what: str,
        facts: dict[str, Any] | None = None,
        *,
        back_to: int | None = None,
    ) -> None:
        """Report a problem that training survives; the fields of `TroubleReport`."""
        self.emit("trouble", _trouble(counters, kind, what, facts, back_to), counters)

    def faults(self, session: TrainingSession) -> None:
        """Report Python envs and worker processes that were replaced."""
        for fault in session.take_faults():
            kind = "env-fault" if fault.worker is None else "worker-restarted"
            self.trouble(session.counters, kind, _describe(fault), dataclasses.asdict(fault))

    def decisions(self, decisions: Sequence[tuple[str, Decision]], counters: Counters) -> None:
        """Report what controllers decided."""
        report = ControlReport(
            counters.iterations,
            counters.steps,
            "; ".join(decision.what or name for name, decision in decisions),
            [{"controller": name, **decision.changes()} for name, decision in decisions],
        )
        self.emit("control", report, counters)

    def progress(self, session: TrainingSession, fraction: float, collected: int, spent: float) -> None:
        """Report progress if it is time to, and the notices of the recorder's threads.

        Args:
            session: The running session.
            fraction: Fraction of the nearest limit that is used up.
            collected: Steps of the iteration that is under way.
            spent: Seconds that it took so far.
        """
        counters = session.counters
        steps, seconds = counters.steps + collected, counters.seconds + spent
        steps_before, seconds_before = self._shown_at
        if seconds - seconds_before < PACE:
            return
        self._shown_at = (steps, seconds)
        report = ProgressReport(
            steps=steps,
            iterations=counters.iterations,
            episodes=counters.episodes,
            seconds=seconds,
            steps_per_second=max(0.0, (steps - steps_before) / (seconds - seconds_before)),
            fraction=fraction,
            workers=session.workers(),
        )
        self.emit("progress", report, counters)
        for notice in self._recorder.notices():
            self.trouble(counters, notice.kind, notice.what, notice.facts)

    def evaluating(self, done: int, episodes: int, counters: Counters) -> None:
        """Report the progress of an evaluation if it is time to."""
        now = time.monotonic()
        if now - self._evaluating_shown >= PACE:
            self._evaluating_shown = now
            report = EvaluationProgress(counters.iterations, counters.steps, done, episodes)
            self._recorder.evaluating(report)
            self._notify("evaluating", report, counters)

    def _notify(self, event: str, report: object, counters: Counters) -> None:
        """Call every callback, record the values it logged, and note whether one wants the run to end."""
        for callback in self._callbacks:
            if getattr(callback, event)(report) is False:
                self.stop_requested = True
            if values := callback.take_logged():
                with self._folder.writing():
                    self._recorder.values(ValuesReport(counters.iterations, counters.steps, values))

    def _report_last_notices(self, counters: Counters) -> None:
        """Report notices that came up while the journal was closed; only callbacks can still receive them."""
        for notice in self._recorder.notices():
            report = _trouble(counters, notice.kind, notice.what, notice.facts)
            for callback in self._callbacks:
                callback.trouble(report)


def _trouble(
    counters: Counters, kind: str, what: str, facts: dict[str, Any] | None, back_to: int | None = None
) -> TroubleReport:
    return TroubleReport(
        iterations=counters.iterations,
        steps=counters.steps,
        what=what,
        attempt=counters.attempt,
        back_to=back_to,
        kind=kind,
        facts=facts or {},
    )


def _describe(fault: Fault) -> str:
    native = fault.worker is None
    where = f"env {fault.env}" if native else f"env {fault.env} of worker {fault.worker}"
    happened = "was reset" if native else f"was replaced ({fault.kind})"
    return f"{where} {'cannot be saved' if fault.kind == 'state' else happened}: {fault.what}"
