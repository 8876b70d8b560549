"""A second Ctrl-C ends the process at once, even during a long native call.

Python runs signal handlers in the main thread, between its own instructions: none runs while that thread is inside a
native call. But the signal's number is written to a wakeup pipe at once, and a thread reads it here. The first signal
is left to the trainer, which ends cleanly.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Self

from hotloop.cli.output import tell
from hotloop.training.interrupts import SAME_REQUEST

if TYPE_CHECKING:
    from types import TracebackType

# The exit code that shells report for a command ended by Ctrl-C.
INTERRUPTED = 130
SHOW_CURSOR = "\x1b[?25h"


class SecondSignalEnds:
    """While entered, a second SIGINT, SIGTERM or SIGHUP ends the process immediately; the first prints `notice`."""

    def __init__(
        self, notice: str = "Stopping after this iteration with a checkpoint; press Ctrl-C again to stop at once."
    ) -> None:
        self._notice = notice

    def __enter__(self) -> Self:
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        threading.Thread(target=_watch, args=(reading, self._notice), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._before)
        # The thread reads the end of the pipe, and ends.
        os.close(self._writing)


def _watch(reading: int, notice: str) -> None:
    seen, first = 0, 0.0
    while numbers := os.read(reading, 1):
        if numbers[0] not in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            continue
        seen += 1
        if seen == 1:
            first = time.monotonic()
            tell(notice)
        elif time.monotonic() - first >= SAME_REQUEST:
            if sys.stdout.isatty():
                os.write(1, SHOW_CURSOR.encode())
            os._exit(INTERRUPTED)
    os.close(reading)
