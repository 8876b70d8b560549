"""What a person or a script sees of a run: JSON lines, plain lines, or on a terminal a live view.

Iterations can be far shorter than anyone can look: records are only noted as they come, and shown by the clock.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Self, TextIO

from hotloop.cli.output import emit, tell
from hotloop.text import duration, measured, plain, short
from hotloop.training.callbacks import Callback

if TYPE_CHECKING:
    from types import TracebackType

    from hotloop.training.callbacks import (
        CheckpointReport,
        EvaluationReport,
        IterationReport,
        ProgressReport,
        StartReport,
        TroubleReport,
    )
    from hotloop.training.runs import Run

# Seconds between plain lines.
PACE = 2.0


class View(Callback):
    """A listener that shows what it hears, and lets go of the terminal whatever happens."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        pass


def launched_rank() -> int | None:
    """Which of several processes a launcher of MPI has made this one; `None` if there was no launcher."""
    names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()), None)


def choose_view(*, as_json: bool, detailed: bool) -> View:
    """JSON goes to standard output; what is for people goes there too, or beside JSON to standard error."""
    rank = launched_rank()
    if rank:
        return View()
    if as_json:
        return JsonLines()
    # A launcher of MPI passes lines on, but no cursor.
    if sys.stdout.isatty() and not detailed and rank is None:
        from hotloop.cli.live import LiveView

        return LiveView()
    return PlainLines(sys.stdout, detailed=detailed)


class JsonLines(View):
    """One JSON object a line: `start`, `progress` a few times a second, what happens on the way, and `end`."""

    def __init__(self) -> None:
        self._record: dict[str, object] = {}

    def start(self, report: StartReport) -> None:
        """Which run begins."""
        emit(
            "start",
            run=report.run,
            path=str(report.path),
            env=report.config.env.name,
            seed=report.config.train.seed,
            learner=report.learner,
            parameters=report.parameters,
            threads=report.num_threads,
            resumed_at=report.resumed_at,
        )
        for note in report.notes:
            tell(note)

    def iteration(self, report: IterationReport) -> None:
        """Notes the record for the next line."""
        self._record = {
            field: getattr(report, field)
            for field in ("return_mean", "return_recent", "policy_loss", "value_loss", "entropy", "kl")
        } | report.measures

    def progress(self, report: ProgressReport) -> None:
        """How far it is, with the last record."""
        told = {**vars(report), **self._record}
        if told.pop("workers"):
            from hotloop.runners.health import in_words

            told["workers"] = in_words(report.workers)
        emit("progress", **plain(told))

    def evaluation(self, report: EvaluationReport) -> None:
        """How well it does."""
        emit("evaluation", **plain(vars(report)))

    def checkpoint(self, report: CheckpointReport) -> None:
        """Where it was written."""
        emit("checkpoint", steps=report.steps, path=str(report.path), is_best=report.is_best)

    def trouble(self, report: TroubleReport) -> None:
        """What went wrong."""
        emit("trouble", steps=report.steps, what=report.what, attempt=report.attempt)
        tell(report.what)

    def end(self, run: Run) -> None:
        """What came of it."""
        emit(
            "end",
            run=run.name,
            path=str(run.path),
            **plain(
                {
                    "steps": run.steps,
                    "seconds": run.seconds,
                    "steps_per_second": run.steps_per_second,
                    "return_mean": run.return_mean,
                    "episodes": run.episodes,
                    "iterations": run.iterations,
                    "ended": run.ended,
                    "solved": run.solved,
                    "evaluation": run.evaluation,
                }
            ),
        )


class PlainLines(View):
    """A line every few seconds; with `detailed`, one for every record."""

    def __init__(self, file: TextIO, *, detailed: bool = False) -> None:
        self._file = file
        self._detailed = detailed
        self._record: IterationReport | None = None
        self._shown = time.perf_counter()

    def start(self, report: StartReport) -> None:
        """Which run begins, and with what."""
        for line in introduction(report):
            self._print(line)

    def iteration(self, report: IterationReport) -> None:
        """Notes the record, or shows all of it."""
        self._record = report
        if self._detailed:
            for line in in_detail(report):
                self._print(line)

    def progress(self, report: ProgressReport) -> None:
        """How far it is, if it is time to say so."""
        now = time.perf_counter()
        if self._record is None or self._detailed or now - self._shown < PACE:
            return
        self._shown = now
        part = f" ({report.fraction:.0%})" if report.fraction else ""
        self._print(
            f"step {short(report.steps)}{part}, {duration(report.seconds)}, {short(report.steps_per_second)} steps/s, "
            f"return {measured(self._record.return_recent)}, {_measures(self._record)}"
        )

    def evaluation(self, report: EvaluationReport) -> None:
        """How well it does."""
        self._print(evaluation_line(report))

    def checkpoint(self, report: CheckpointReport) -> None:
        """Only of interest in detail."""
        if self._detailed:
            self._print(f"checkpoint {report.path}")

    def trouble(self, report: TroubleReport) -> None:
        """What went wrong."""
        self._print(f"step {short(report.steps)}: {report.what}")

    def end(self, run: Run) -> None:
        """What came of it, and what to do next."""
        for line in conclusion(run):
            self._print(line)

    def _print(self, line: str) -> None:
        print(line, file=self._file, flush=True)


def _measures(record: IterationReport) -> str:
    """The numbers that tell how an algorithm learns."""
    told = record.measures or {"entropy": record.entropy}
    return ", ".join(f"{name.replace('_', ' ')} {measured(value, 3)}" for name, value in told.items())


def introduction(report: StartReport) -> list[str]:
    """The lines that open a run."""
    config = report.config
    begun = f", goes on at step {report.resumed_at}" if report.resumed_at is not None else ""
    return [
        f"run {report.run}: {config.env.name}, seed {config.train.seed}{begun}",
        f"{report.work}, {report.num_threads} {'thread' if report.num_threads == 1 else 'threads'}",
        f"learner: {report.learner}",
        *report.notes,
    ]


def evaluation_line(report: EvaluationReport) -> str:
    """How well the policy does."""
    found = report.evaluation
    best = ", the best so far" if report.is_best else ""
    if found.exact:
        told = ", ".join(f"{name.replace('_', ' ')} {measured(value)}" for name, value in found.metrics.items())
        return f"evaluation at step {short(report.steps)}: {found.mean:.5f} exactly ({told}){best}"
    return (
        f"evaluation at step {short(report.steps)}: {measured(found.mean)} over {found.episodes} fresh episodes "
        f"(95 %: {measured(found.low)} to {measured(found.high)}){best}"
    )


def in_detail(report: IterationReport) -> list[str]:
    """Everything that a record holds, for debugging."""
    lines = [
        f"iteration {report.iterations}, step {report.steps}: return {measured(report.return_mean)}, "
        f"policy loss {measured(report.policy_loss)}, value loss {measured(report.value_loss)}, "
        f"entropy {measured(report.entropy)}, kl {measured(report.kl)}, clipped {measured(report.clip_fraction)}, "
        f"gradient norm {measured(report.gradient_norm)}, explained variance {measured(report.explained_variance)}, "
        f"dropped {report.dropped}, faults {report.faults}"
    ]
    if report.statistics is not None:
        for kind in ("weights", "gradients"):
            for name, facts in getattr(report.statistics, kind).items():
                told = ", ".join(f"{fact} {measured(value)}" for fact, value in facts.items())
                lines.append(f"  {kind} {name}: {told}")
        lines.append(f"  actions: {report.statistics.actions}")
    return lines


def conclusion(run: Run) -> list[str]:
    """The lines that close a run."""
    did = {"solved": "solved", "interrupted": "stopped"}.get(run.ended, f"ended by its limit of {run.ended}")
    lines = [
        f"{did} after {short(run.steps)} steps in {duration(run.seconds)} ({short(run.steps_per_second)} steps/s), "
        f"return {measured(run.return_mean)}"
    ]
    lines.append(f"in {run.path}")
    if run.ended == "interrupted":
        lines.append(f"goes on with: hotloop train --resume {run.name}")
    return lines
