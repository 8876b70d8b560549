"""Requests to end a run cleanly: a call, or Ctrl-C, SIGTERM and SIGHUP, of which a second one ends at once."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Final, Self

# A closed terminal sends SIGHUP.
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds within which further signals are the same request: `timeout` signals a process and its group.
SAME_REQUEST: Final = 1.0


class Interrupted(Exception):  # noqa: N818  # a request, not an error
    """Raised out of work that a request to end abandoned."""


class Interrupts:
    """While entered in the main thread, records the first signal instead of raising it."""

    def __init__(self) -> None:
        self.asked = False
        """Whether a clean end was requested."""
        self._raises = False
        self._first = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # `nohup` and `&` in scripts ignore a signal on purpose.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._restore()

    def request(self) -> None:
        """Request a clean end; from any thread."""
        if not self.asked:
            self.asked, self._first = True, time.monotonic()

    def check(self) -> None:
        """Raise `Interrupted` if a clean end was requested."""
        if self.asked:
            raise Interrupted

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """While entered, a signal also raises `Interrupted`: for long work that can be abandoned."""
        self._raises = True
        try:
            self.check()
            yield
        finally:
            self._raises = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.asked:
            self.request()
            if self._raises:
                self._raises = False
                raise Interrupted
        elif now - self._first >= SAME_REQUEST:
            # From here on a signal does what it did before training began.
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
