"""Progress of a long command: a live bar on a terminal, otherwise one line per finished part, or every ten seconds."""

import sys
import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hotloop.cli.output import tell

# Seconds between lines where there is no bar.
_LINE_PACE: Final = 10.0


class PartsProgress:
    """Progress through a known number of parts, shown on standard error."""

    def __init__(self, parts: int):
        self._live = sys.stderr.isatty()
        self._bar = Progress(
            BarColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task("", total=parts)
        self._done = 0
        self._printed_at = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._bar.stop()

    def at(self, part: str, what: str, share: float) -> None:
        """Show that a share of the current part is done, and its current activity."""
        self._bar.update(self._task, completed=self._done + share, description=f"{part}: {what}")
        if not self._live and time.monotonic() - self._printed_at >= _LINE_PACE:
            self._printed_at = time.monotonic()
            tell(f"{part}: {what}")

    def episodes(self, done: int, episodes: int) -> None:
        """Show how many episodes of an evaluation are over."""
        self.at("evaluating", f"{done}/{episodes} episodes", done / episodes)

    def finish_part(self, line: str) -> None:
        """Finish the current part with a line that states its result."""
        self._done += 1
        self._bar.update(self._task, completed=self._done)
        if not self._live:
            tell(line)
