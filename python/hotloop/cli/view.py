"""Views of a run for commands: JSON lines for scripts, plain lines, or a live view on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hotloop.cli.output import emit, tell
from hotloop.text import plain
from hotloop.training.display import PlainLines, View, launched_rank

if TYPE_CHECKING:
    from hotloop.training.callbacks import (
        CheckpointReport,
        ControlReport,
        EvaluationReport,
        IterationReport,
        ProgressReport,
        StartReport,
        TroubleReport,
    )
    from hotloop.training.runs import Run

_SHOWN_LOSSES = ("policy_loss", "value_loss", "entropy", "kl")


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
        self._record: dict[str, float] = {}

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
        losses = {name: report.losses[name] for name in _SHOWN_LOSSES if name in report.losses}
        returns = {"return_mean": report.return_mean, "return_recent": report.return_recent}
        self._record = returns | losses | report.measures

    def progress(self, report: ProgressReport) -> None:
        """Emit the progress with the last record."""
        facts = {**vars(report), **self._record}
        if facts.pop("workers"):
            from hotloop.runners.health import format_health

            facts["workers"] = format_health(report.workers)
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
