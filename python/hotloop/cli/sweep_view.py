"""Views of a running sweep: JSON lines for scripts, plain lines, or a live view on a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from hotloop.cli.output import emit, tell
from hotloop.sweeps.display import PlainLines, Silent, conclusion, format_setting, opening, shown_value, trial_row
from hotloop.sweeps.sweep import planned_results
from hotloop.text import duration, measured, short

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hotloop.sweeps.sweep import Sweep
    from hotloop.sweeps.tasks import Result


_PACE: Final = 0.25


class View(Silent):
    """A view that is entered while the sweep runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        pass

    def end(self, sweep: Sweep, is_done: bool) -> None:
        """Show the result."""


def choose_view(*, as_json: bool) -> View:
    """Return the view for this output."""
    if as_json:
        return JsonView()
    return LiveView() if sys.stdout.isatty() else PlainView()


class JsonView(View):
    """One JSON object per line: `start`, `trial` and `confirm` as they end, `note`, and `end`."""

    def begin(self, sweep: Sweep, slots: int) -> None:
        """Emit the sweep's identity."""
        super().begin(sweep, slots)
        definition = sweep.definition
        emit(
            "start",
            sweep=sweep.name,
            path=str(sweep.path),
            env=definition.env,
            sampler=definition.sampler,
            trials=definition.trials,
            slots=slots,
            known=len(sweep.results),
            promise=definition.promise,
        )

    def finished(self, result: Result) -> None:
        """Emit the line of the journal."""
        super().finished(result)
        kind = result["task"].partition("/")[0]
        if kind != "end":
            emit(kind, **result)

    def note(self, text: str) -> None:
        """Emit it, and tell people."""
        emit("note", what=text)
        tell(text)

    def end(self, sweep: Sweep, is_done: bool) -> None:
        """Emit the result."""
        best = sweep.best
        emit(
            "end",
            sweep=sweep.name,
            path=str(sweep.path),
            completed=is_done,
            trials=len(sweep.trials),
            seconds=round(self.seconds, 3),
            pruned_share=self.pruned_share,
            best=None if best is None else trial_row(sweep, best),
            front=[trial_row(sweep, trial) for trial in sweep.front] if sweep.definition.sweep.has_cost else None,
            importance=sweep.importance,
            kept=sweep.kept,
        )


class PlainView(View, PlainLines):
    """Lines on standard error, the result on standard output."""

    def __init__(self) -> None:
        PlainLines.__init__(self, sys.stderr)

    def end(self, sweep: Sweep, is_done: bool) -> None:
        """Print the result."""
        print("\n".join(conclusion(sweep)) if is_done else f"interrupted: hotloop sweep --resume {sweep.name}")


class LiveView(View):
    """A panel with progress, rate, the best so far and the last trials, redrawn a few times a second."""

    def __init__(self, console: Any = None) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False)
        self._notes: list[str] = []
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        """Show it below the trials."""
        self._notes = [*self._notes[-2:], text]

    def tick(self) -> None:
        """Redraw, four times a second at most."""
        if time.monotonic() - self._drawn >= _PACE:
            self._drawn = time.monotonic()
            self._live.update(self._panel(), refresh=True)

    def end(self, sweep: Sweep, is_done: bool) -> None:
        """Draw the last state, with the result below."""
        self._live.update(self._panel(), refresh=True)
        self._live.stop()
        lines = conclusion(sweep) if is_done else [f"interrupted: hotloop sweep --resume {sweep.name}"]
        for line in lines:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _panel(self) -> Any:
        from rich.box import ROUNDED
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        sweep = self.sweep
        assert sweep is not None
        planned = planned_results(sweep.definition)
        line = Table.grid(expand=True, padding=(0, 2, 0, 0))
        line.add_column(ratio=1)
        line.add_column(no_wrap=True, justify="right")
        line.add_row(
            ProgressBar(total=max(1, planned), completed=self.done, complete_style="cyan", finished_style="green"),
            f"{self.stage}: {self.done} of {planned}, {self.rate:.1f}/s, {self.pruned_share:.0%} pruned, "
            f"{duration(self.seconds)}",
        )
        rows = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
        for heading in ("trial", "state", sweep.definition.sweep.metric, "steps", "settings"):
            rows.add_column(heading, no_wrap=True, overflow="ellipsis")
        if self.best is not None:
            rows.add_row(*_cells(sweep, self.best[1], "best so far"), style="green")
        for result in reversed(self.last):
            rows.add_row(*_cells(sweep, result, result["state"]))
        running = ", ".join(f"{task} at {short(steps)}" for task, steps in list(self.running.items())[:4])
        parts: list[RenderableType] = [line, Text(), rows, *(Text(note, style="yellow") for note in self._notes)]
        if running:
            parts.append(Text(f"running: {running}", style="dim"))
        if sweep.definition.sweep.has_cost and self.done:
            front = ", ".join(f"{measured(each.cost, 2)} s {measured(each.value or 0.0)}" for each in sweep.front[-5:])
            parts.append(Text(f"front: {front}", style="cyan"))
        return Panel(
            Group(*parts),
            title=f"[bold]hotloop sweep[/bold] · {sweep.definition.env} · {sweep.name}",
            subtitle=opening(sweep, self.slots)[0].partition(": ")[2],
            title_align="left",
            subtitle_align="left",
            box=ROUNDED,
            border_style="cyan",
            width=min(120, self._console.width),
        )


def _cells(sweep: Sweep, result: Result, state: str) -> tuple[str, ...]:
    values = [each["value"] for each in result["evaluations"]] or [each[1] for each in result["rungs"][-1:]]
    settings = " ".join(
        f"{key.rpartition('.')[2]}={format_setting(value)}" for key, value in result["settings"].items()
    )
    return (
        result["task"].partition("/")[2],
        state,
        shown_value(sweep, sum(values) / len(values)) if values else "-",
        short(result["steps"]),
        settings,
    )
