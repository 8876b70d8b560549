"""Views of a run: JSON lines for scripts, plain lines, or a live view on a terminal.

Iterations can be far shorter than anyone can read: records are kept as they arrive and shown at a fixed pace.
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
        ControlReport,
        EvaluationProgress,
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
    """A callback that displays events and releases the terminal at the end, whatever happens."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        pass


def launched_rank() -> int | None:
    """Return this process's rank if an MPI launcher started it, else None."""
    names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()), None)


def choose_view(*, as_json: bool, detailed: bool, is_last: bool = True) -> View:
    """Return the view for this output: JSON lines, a live view on a terminal, or plain lines.

    `is_last` says that the run is the command's last output; otherwise its JSON ends with `run` instead of `end`.
    """
    rank = launched_rank()
    if rank:
        return View()
    if as_json:
        return JsonLines(is_last=is_last)
    # An MPI launcher forwards lines, but no cursor movements.
    if sys.stdout.isatty() and not detailed and rank is None:
        from hotloop.cli.live import LiveView

        return LiveView()
    return PlainLines(sys.stdout, detailed=detailed)


class JsonLines(View):
    """One JSON object per line: `start`, `progress` a few times a second, other events, and `end`."""

    def __init__(self, *, is_last: bool = True) -> None:
        self._end = "end" if is_last else "run"
        self._record: dict[str, object] = {}

    def start(self, report: StartReport) -> None:
        """Emit the run's identity."""
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
        """Keep the record for the next progress line."""
        self._record = {
            field: getattr(report, field)
            for field in ("return_mean", "return_recent", "policy_loss", "value_loss", "entropy", "kl")
        } | report.measures

    def progress(self, report: ProgressReport) -> None:
        """Emit the progress with the last record."""
        facts = {**vars(report), **self._record}
        if facts.pop("workers"):
            from hotloop.runners.health import in_words

            facts["workers"] = in_words(report.workers)
        emit("progress", **plain(facts))

    def evaluation(self, report: EvaluationReport) -> None:
        """Show an evaluation's result."""
        emit("evaluation", **plain(vars(report)))

    def checkpoint(self, report: CheckpointReport) -> None:
        """Emit the checkpoint's path."""
        emit("checkpoint", steps=report.steps, path=str(report.path), is_best=report.is_best)

    def control(self, report: ControlReport) -> None:
        """Print what controllers decided."""
        emit("control", **plain(vars(report)))

    def trouble(self, report: TroubleReport) -> None:
        """Show a warning or a fault."""
        emit("trouble", steps=report.steps, what=report.what, attempt=report.attempt)
        tell(report.what)

    def end(self, run: Run) -> None:
        """Emit the result."""
        emit(
            self._end,
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
    """One line every few seconds; with `detailed`, one for every record."""

    def __init__(self, file: TextIO, *, detailed: bool = False) -> None:
        self._file = file
        self._detailed = detailed
        self._record: IterationReport | None = None
        self._shown = time.perf_counter()

    def start(self, report: StartReport) -> None:
        """Print the run's identity and settings."""
        for line in introduction(report):
            self._print(line)

    def iteration(self, report: IterationReport) -> None:
        """Keep the record, or print all of it."""
        self._record = report
        if self._detailed:
            for line in in_detail(report):
                self._print(line)

    def progress(self, report: ProgressReport) -> None:
        """Print the progress if a line is due."""
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
        """Show an evaluation's result."""
        self._print(evaluation_line(report))

    def checkpoint(self, report: CheckpointReport) -> None:
        """Print the path in detailed mode."""
        if self._detailed:
            self._print(f"checkpoint {report.path}")

    def control(self, report: ControlReport) -> None:
        """Print what controllers decided."""
        self._print(f"step {short(report.steps)}: {report.what}")

    def evaluating(self, report: EvaluationProgress) -> None:
        """Print how far an evaluation is, if it is time to say so."""
        now = time.perf_counter()
        if now - self._shown >= PACE:
            self._shown = now
            self._print(evaluating_line(report))

    def trouble(self, report: TroubleReport) -> None:
        """Show a warning or a fault."""
        self._print(f"step {short(report.steps)}: {report.what}")

    def end(self, run: Run) -> None:
        """Print the result and the next command."""
        for line in conclusion(run):
            self._print(line)

    def _print(self, line: str) -> None:
        print(line, file=self._file, flush=True)


def _measures(record: IterationReport) -> str:
    """The algorithm's own metrics, as text."""
    metrics = record.measures or {"entropy": record.entropy}
    return ", ".join(f"{name.replace('_', ' ')} {measured(value, 3)}" for name, value in metrics.items())


def introduction(report: StartReport) -> list[str]:
    """Lines that open a run."""
    config = report.config
    begun = f", resumed at step {report.resumed_at}" if report.resumed_at is not None else ""
    return [
        f"run {report.run}: {config.env.name}, seed {config.train.seed}{begun}",
        f"{report.work}, {report.num_threads} {'thread' if report.num_threads == 1 else 'threads'}",
        f"learner: {report.learner}",
        *report.notes,
    ]


def evaluating_line(report: EvaluationProgress) -> str:
    """How far an evaluation is."""
    return f"step {short(report.steps)}: evaluating {report.done}/{report.episodes} episodes"


def evaluation_line(report: EvaluationReport) -> str:
    """One line with the result of an evaluation."""
    found = report.evaluation
    best = ", the best so far" if report.is_best else ""
    if found.exact:
        metrics = ", ".join(f"{name.replace('_', ' ')} {measured(value)}" for name, value in found.metrics.items())
        return f"evaluation at step {short(report.steps)}: {found.mean:.5f} exactly ({metrics}){best}"
    return (
        f"evaluation at step {short(report.steps)}: {measured(found.mean)} over {found.episodes} episodes "
        f"(95 % interval: {measured(found.low)} to {measured(found.high)}){best}"
    )


def in_detail(report: IterationReport) -> list[str]:
    """All values of a record, for debugging."""
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
                values = ", ".join(f"{fact} {measured(value)}" for fact, value in facts.items())
                lines.append(f"  {kind} {name}: {values}")
        lines.append(f"  actions: {report.statistics.actions}")
    return lines


def conclusion(run: Run) -> list[str]:
    """Lines that close a run."""
    endings = {"solved": "solved", "interrupted": "interrupted", "controller": "ended by a controller"}
    outcome = endings.get(run.ended, f"limit of {run.ended} reached")
    lines = [
        f"{outcome} after {short(run.steps)} steps in {duration(run.seconds)} ({short(run.steps_per_second)} steps/s), "
        f"return {measured(run.return_mean)}"
    ]
    lines.append(f"in {run.path}")
    if run.ended == "interrupted":
        lines.append(f"continue with: hotloop train --resume {run.name}")
    return lines
