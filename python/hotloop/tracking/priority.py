"""Lower scheduling priority for the threads that record."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Final

# With a much lower one, on a busy machine, the thread would hold the GIL for long while others take its core.
_LOWER_BY: Final = 5


def give_way() -> None:
    """Lower the priority of the calling thread, where threads have one, so that training goes first."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _LOWER_BY)
