"""A second Ctrl-C ends the process at once, even while native code works on a long iteration.

Python runs signal handlers in the main thread, between its own instructions: while that thread is inside a native call
none would run. What the system writes down at once, in every case, is the signal's number, to a pipe that a thread
reads here. The first signal is left to the trainer, which ends cleanly.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Self

from hotloop.cli.output import tell

if TYPE_CHECKING:
    from types import TracebackType

# As shells report a command that Ctrl-C ended.
INTERRUPTED = 130
SHOW_CURSOR = "\x1b[?25h"


class SecondSignalEnds:
    """While it is entered, the second SIGINT or SIGTERM ends the process without further ado."""

    def __enter__(self) -> Self:
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        threading.Thread(target=_watch, args=(reading,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._before)
        # The thread's end of the pipe reads as finished now, and it ends too.
        os.close(self._writing)


def _watch(reading: int) -> None:
    seen = 0
    while numbers := os.read(reading, 1):
        if numbers[0] not in (signal.SIGINT, signal.SIGTERM):
            continue
        seen += 1
        if seen == 1:
            tell("Stopping after this iteration, with a checkpoint; once more ends at once.")
        else:
            if sys.stdout.isatty():
                os.write(1, SHOW_CURSOR.encode())
            os._exit(INTERRUPTED)
    os.close(reading)
