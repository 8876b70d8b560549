"""Ctrl-C, SIGTERM and SIGHUP: the first signal requests a clean end, the second ends at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Final, Self

# A closed terminal sends SIGHUP.
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):  # noqa: N818  # a request, not an error
    """Raised out of work that a signal abandoned."""


class Interrupts:
    """While entered in the main thread, records the first signal instead of raising it."""

    def __init__(self) -> None:
        self.asked = False
        self._raises = False
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

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """While entered, a signal also raises `Interrupted`: for long work that can be abandoned."""
        self._raises = True
        try:
            if self.asked:
                raise Interrupted
            yield
        finally:
            self._raises = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        # From here on a signal has the effect it had before training began.
        self._restore()
        if self._raises:
            raise Interrupted

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
