"""Displays of a run's progress: lines of text, or a bar in a notebook.

Iterations can be far shorter than anyone can read: records are kept as they arrive and shown at a fixed pace.
"""

from __future__ import annotations

import html
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from hotloop.text import duration, measured, short
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

# Seconds between lines, and between redraws of a bar.
PACE: Final = 2.0
_BAR_PACE: Final = 0.5


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


def default_view() -> View:
    """Return the display for a script or a notebook; only the first of several MPI ranks has one."""
    if launched_rank():
        return View()
    return NotebookBar() if _in_notebook() else PlainLines(sys.stderr)


def _in_notebook() -> bool:
    """Return whether the code runs in a Jupyter kernel, which can show and update a bar."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


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
        if not self._detailed and now - self._shown >= PACE:
            self._shown = now
            self._print(progress_line(report, self._record))

    def evaluation(self, report: EvaluationReport) -> None:
        """Show an evaluation's result."""
        self._print(evaluation_line(report))

    def checkpoint(self, report: CheckpointReport) -> None:
        """Print the path in detailed mode."""
        if self._detailed:
            self._print(f"checkpoint {report.path}")

    def control(self, report: ControlReport) -> None:
        """Print what controllers decided."""
        self._print(trouble_line(report))

    def evaluating(self, report: EvaluationProgress) -> None:
        """Print how far an evaluation is, if it is time to say so."""
        now = time.perf_counter()
        if now - self._shown >= PACE:
            self._shown = now
            self._print(evaluating_line(report))

    def trouble(self, report: TroubleReport) -> None:
        """Show a warning or a fault."""
        self._print(trouble_line(report))

    def end(self, run: Run) -> None:
        """Print the result and the next command."""
        for line in conclusion(run):
            self._print(line)

    def _print(self, line: str) -> None:
        print(line, file=self._file, flush=True)


class NotebookBar(View):
    """A progress bar with a line below it, updated in place in the output of a notebook's cell."""

    def __init__(self) -> None:
        from IPython.display import display

        show: Any = display
        self._handle = show(self._content("preparing", 0.0), raw=True, display_id=True)
        self._record: IterationReport | None = None
        self._shown = 0.0
        self._fraction = 0.0
        self._title = ""

    def start(self, report: StartReport) -> None:
        """Show the run's name, and notices."""
        self._title = report.run
        self._show("starting")
        for note in report.notes:
            print(note)

    def iteration(self, report: IterationReport) -> None:
        """Keep the record for the next redraw."""
        self._record = report

    def progress(self, report: ProgressReport) -> None:
        """Redraw the bar if it is time."""
        if time.perf_counter() - self._shown >= _BAR_PACE:
            self._fraction = report.fraction
            self._show(progress_line(report, self._record))

    def evaluating(self, report: EvaluationProgress) -> None:
        """Show how far an evaluation is."""
        if time.perf_counter() - self._shown >= _BAR_PACE:
            self._show(evaluating_line(report))

    def evaluation(self, report: EvaluationReport) -> None:
        """Show an evaluation's result."""
        self._show(evaluation_line(report))

    def trouble(self, report: TroubleReport) -> None:
        """Print a warning or a fault, which stays below the bar."""
        print(trouble_line(report))

    def control(self, report: ControlReport) -> None:
        """Print what controllers decided."""
        print(trouble_line(report))

    def end(self, run: Run) -> None:
        """Show the result; the bar of a run that was interrupted stays where it is."""
        self._fraction = self._fraction if run.ended == "interrupted" else 1.0
        self._show(conclusion(run)[0])

    def _show(self, line: str) -> None:
        self._shown = time.perf_counter()
        self._handle.update(self._content(line, self._fraction, self._title), raw=True)

    @staticmethod
    def _content(line: str, fraction: float, title: str = "") -> dict[str, str]:
        bar = f'<progress value="{fraction:.4f}" max="1" style="width: 24em"></progress>'
        return {
            "text/plain": f"{title} {fraction:4.0%} {line}".strip(),
            "text/html": f"{html.escape(title)} {bar}<br><code>{html.escape(line)}</code>",
        }


def progress_line(report: ProgressReport, record: IterationReport | None) -> str:
    """One line with steps, time and speed, and the last record's return if there is one."""
    part = f" ({report.fraction:.0%})" if report.fraction else ""
    line = f"step {short(report.steps)}{part}, {duration(report.seconds)}, {short(report.steps_per_second)} steps/s"
    return line if record is None else f"{line}, return {measured(record.return_recent)}, {_measures(record)}"


def trouble_line(report: TroubleReport | ControlReport) -> str:
    """One line with something that happened to a run."""
    return f"step {short(report.steps)}: {report.what}"


def _measures(record: IterationReport) -> str:
    """The algorithm's own metrics, as text."""
    metrics = record.measures or {"entropy": record.losses["entropy"]}
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
    """Return one line with the progress of an evaluation."""
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
    named = report.losses | report.measures
    lines = [
        f"iteration {report.iterations}, step {report.steps}: return {measured(report.return_mean)}, "
        + "".join(f"{name.replace('_', ' ')} {measured(value)}, " for name, value in named.items())
        + f"dropped {report.dropped}, faults {report.faults}"
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
    endings = {
        "solved": "solved",
        "interrupted": "interrupted",
        "controller": "ended by a controller",
        "callback": "ended by a callback",
    }
    outcome = endings.get(run.ended, f"limit of {run.ended} reached")
    lines = [
        f"{outcome} after {short(run.steps)} steps in {duration(run.seconds)} ({short(run.steps_per_second)} steps/s), "
        f"return {measured(run.return_mean)}"
    ]
    lines.append(f"in {run.path}")
    if run.ended == "interrupted":
        lines.append(f"continue with: hotloop train --resume {run.name}")
    return lines
