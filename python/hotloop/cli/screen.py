"""Frames of an episode: in place on a terminal, paced or by key press; otherwise one after another."""

from __future__ import annotations

import os
import sys
import termios
import time
import tty
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

_QUIT = ("q", "\x1b", "\x04")


class Screen:
    """A display of text frames.

    Args:
        pace: Frames per second on a terminal; 0 for no limit.
        by_key: Wait for a key press after each frame instead.
    """

    def __init__(self, pace: float, *, by_key: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._pace = pace
        self._by_key = by_key
        self._due = 0.0
        self._keys: list[int | list[bytes | int]] | None = None
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._by_key:
            self._keys = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        if self._keys is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._keys)

    def show(self, frame: str) -> bool:
        """Show a frame when it is due; return whether to continue."""
        if self._live is None:
            self._console.out(frame + "\n", highlight=False)
        else:
            self._wait()
            self._live.update(Text.from_ansi(frame, no_wrap=True, overflow="crop"), refresh=True)
        return not self._by_key or os.read(sys.stdin.fileno(), 1).decode(errors="replace") not in _QUIT

    def _wait(self) -> None:
        if self._by_key or self._pace <= 0:
            return
        now = time.monotonic()
        if self._due > now:
            time.sleep(self._due - now)
        # A slow frame delays the following ones: none is skipped.
        self._due = max(self._due, now) + 1.0 / self._pace


def keys_can_be_read() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin.isatty()
