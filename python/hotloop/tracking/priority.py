"""How the threads that record give way to those that train."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Final

# Much lower, and on a busy machine the thread would hold Python's lock for long while others take its core.
_LOWER_BY: Final = 5


def give_way() -> None:
    """Lets the calling thread begin only when a core is free or others had a longer turn, where that can be told."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _LOWER_BY)
