"""Live view of a run on a terminal: progress, speed, returns, losses, time split and machine usage."""

from __future__ import annotations

import math
import os
import resource
import time
from collections import deque
from typing import TYPE_CHECKING, Self

from rich.box import ROUNDED
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hotloop.text import duration, measured, short
from hotloop.training.display import View, conclusion, evaluating_line, evaluation_line, trouble_line

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import RenderableType

    from hotloop.training.callbacks import (
        ControlReport,
        EvaluationProgress,
        EvaluationReport,
        IterationReport,
        ProgressReport,
        StartReport,
        TimeSplit,
        TroubleReport,
    )
    from hotloop.training.runs import Run

BARS = "▁▂▃▄▅▆▇█"
# Points in the curve of returns; beyond that every second one is dropped.
CURVE = 64
# Widths of the columns of facts, and the gap between them, in characters.
COLUMNS = (18, 22, 26)
GAP = 2
FRAME = 4
SPLIT = ("env", "inference", "copy", "learn", "rest")


class LiveView(View):
    """A panel that is redrawn a few times a second and stays on the screen after the end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False)
        self._usage = Usage()
        self._begun: StartReport | None = None
        self._now: ProgressReport | None = None
        self._record: IterationReport | None = None
        self._curve = Curve()
        self._events: deque[str] = deque(maxlen=3)
        self._evaluating: str | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._live.stop()

    def start(self, report: StartReport) -> None:
        """Draw the empty panel."""
        self._begun = report
        self._events.extend(report.notes)
        self._draw()

    def iteration(self, report: IterationReport) -> None:
        """Keep the record and extend the curve of returns."""
        self._record = report
        self._curve.add(report.return_mean)

    def progress(self, report: ProgressReport) -> None:
        """Redraw the panel."""
        self._now = report
        self._draw()

    def evaluation(self, report: EvaluationReport) -> None:
        """Add a line."""
        self._evaluating = None
        self._events.append(evaluation_line(report))

    def evaluating(self, report: EvaluationProgress) -> None:
        """Show how far an evaluation is, in a line that the next one replaces."""
        self._evaluating = evaluating_line(report)
        self._draw()

    def control(self, report: ControlReport) -> None:
        """Add a line."""
        self._events.append(trouble_line(report))

    def trouble(self, report: TroubleReport) -> None:
        """Add a line."""
        self._events.append(trouble_line(report))

    def end(self, run: Run) -> None:
        """Draw the final state, with the result below."""
        self._draw(finished=run)
        self._live.stop()
        for line in conclusion(run):
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _draw(self, finished: Run | None = None) -> None:
        if self._begun is not None:
            self._live.update(self._panel(self._begun, finished), refresh=True)

    def _panel(self, begun: StartReport, finished: Run | None) -> Panel:
        config = begun.config
        parts: list[RenderableType] = [
            self._progress_line(begun, finished),
            Text(),
            self._columns(finished),
            Text(),
            Text(f"return  {self._curve.drawn()}", style="green", no_wrap=True),
            *self._workers(),
            *(Text(event, style="dim") for event in (*self._events, *filter(None, [self._evaluating]))),
        ]
        return Panel(
            Group(*parts),
            title=f"[bold]hotloop[/bold] · {config.env.name} · {begun.run}",
            subtitle=f"{begun.work} · {begun.learner}",
            title_align="left",
            subtitle_align="left",
            box=ROUNDED,
            border_style="cyan",
            width=min(100, self._console.width),
        )

    def _progress_line(self, begun: StartReport, finished: Run | None) -> Table:
        """Progress towards the nearest limit, and the estimated time left."""
        now = finished or self._now
        share = self._now.fraction if self._now else 0.0
        if finished is not None and finished.ended != "interrupted":
            share = 1.0
        steps, seconds = (now.steps, now.seconds) if now else (begun.resumed_at or 0, 0.0)
        left = f", {duration(seconds * (1 - share) / share)} left" if 0 < share < 1 else ""
        line = Table.grid(expand=True, padding=(0, 2, 0, 0))
        line.add_column(ratio=1)
        line.add_column(no_wrap=True, justify="right")
        line.add_row(
            ProgressBar(total=1.0, completed=share, complete_style="cyan", finished_style="green"),
            f"{short(steps)} steps, {duration(seconds)}{left}",
        )
        return line

    def _columns(self, finished: Run | None) -> Group:
        """Facts in as many columns as the terminal has room for; no number is cut off."""
        facts: list[RenderableType] = [self._speed(finished), self._learning(), self._split(finished)]
        width = min(100, self._console.width)
        beside = 3 if width >= _width(COLUMNS) else 2 if width >= _width(COLUMNS[:2]) else 1
        grids = []
        for first in range(0, len(facts), beside):
            grid = Table.grid(expand=True, padding=(0, GAP, 0, 0))
            for needed in COLUMNS[first : first + beside]:
                grid.add_column(ratio=needed)
            grid.add_row(*facts[first : first + beside])
            grids.append(grid)
        return Group(*grids)

    def _workers(self) -> list[Text]:
        """One line with the state of the worker processes."""
        workers = self._now.workers if self._now is not None else ()
        if not workers:
            return []
        from hotloop.runners.health import format_health

        well = all(worker.state == "alive" for worker in workers)
        style = "cyan" if well else "yellow"
        return [Text(f"workers {format_health(workers)}", style=style, no_wrap=True, overflow="ellipsis")]

    def _speed(self, finished: Run | None) -> Table:
        record, now = self._record, finished or self._now
        return _facts(
            ("steps/s", short(now.steps_per_second) if now else "-"),
            ("episodes", short(now.episodes) if now else "-"),
            ("return", measured(record.return_recent) if record else "-"),
            ("  lowest", measured(record.return_min) if record else "-"),
            ("  highest", measured(record.return_max) if record else "-"),
            ("length", measured(record.length_mean) if record else "-"),
        )

    def _learning(self) -> Table:
        record = self._record
        if record is None:
            return _facts(("policy loss", "-"))
        if record.measures:
            return _facts(*((name.replace("_", " "), measured(value, 3)) for name, value in record.measures.items()))
        losses = record.losses
        return _facts(
            ("policy loss", measured(losses["policy_loss"], 3)),
            ("value loss", measured(losses["value_loss"], 3)),
            ("entropy", measured(losses["entropy"], 3)),
            ("KL", measured(losses["kl"], 2)),
            ("clipped", f"{losses['clip_fraction']:.1%}"),
            ("explained", measured(losses["explained_variance"], 3)),
        )

    def _split(self, finished: Run | None) -> Table:
        lines = [] if self._record is None else split_lines(self._record.time)
        return _facts(
            *lines,
            ("CPU", f"{self._usage.cores(overall=finished is not None):.1f} of {os.cpu_count()} cores"),
            ("memory", f"{self._usage.memory() / 2**20:.0f} MB"),
        )


def _width(columns: tuple[int, ...]) -> int:
    return sum(columns) + GAP * len(columns) + FRAME


class Usage:
    """CPU and memory usage of this process."""

    def __init__(self) -> None:
        self._first = self._before = time.perf_counter(), time.process_time()

    def cores(self, *, overall: bool) -> float:
        """Return the average number of busy cores since the last call, or since the start."""
        wall, busy = self._first if overall else self._before
        self._before = time.perf_counter(), time.process_time()
        return (self._before[1] - busy) / max(1e-3, self._before[0] - wall)

    @staticmethod
    def memory() -> int:
        """Return the peak resident size in bytes."""
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def split_lines(split: TimeSplit) -> list[tuple[str, str]]:
    """Shares of time per phase, without those below half a percent."""
    total = split.total
    shares = [(name, getattr(split, name) / total) for name in SPLIT] if total > 0 else []
    return [(name, f"{share:4.0%} {'▪' * round(10 * share)}") for name, share in shares if share >= 0.005]


def _facts(*lines: tuple[str, str]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(no_wrap=True)
    for label, value in lines:
        table.add_row(label, value)
    return table


class Curve:
    """A sparkline over the whole run, thinned as the run grows."""

    def __init__(self) -> None:
        self._points: list[float] = []
        self._every = 1
        self._seen = 0

    def add(self, value: float) -> None:
        """Add a value; non-finite ones are skipped."""
        if not math.isfinite(value):
            return
        if self._seen % self._every == 0:
            self._points.append(value)
            if len(self._points) > CURVE:
                self._points = self._points[::2]
                self._every *= 2
        self._seen += 1

    def drawn(self) -> str:
        """Return the sparkline, scaled from the lowest to the highest value.

        >>> curve = Curve()
        >>> for value in (0, 1, 2, 7):
        ...     curve.add(value)
        >>> curve.drawn()
        '▁▂▃█'
        """
        if not self._points:
            return ""
        low, high = min(self._points), max(self._points)
        size = (high - low) or 1.0
        return "".join(BARS[min(7, int(8 * (point - low) / size))] for point in self._points)
