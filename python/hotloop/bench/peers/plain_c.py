"""The same work in plain C on one thread, compiled if a compiler is installed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from hotloop.bench.measure import Contender

NAME: Final = "plain C"
_BLOCK: Final = 1 << 20


def missing() -> str | None:
    """Return why it cannot be measured, or None."""
    return None if shutil.which("cc") else "there is no C compiler (cc)"


def contender() -> Contender:
    """Q-learning on tictactoe, a block of steps a call."""
    advance = load().advance
    advance.argtypes = [ctypes.c_int64]
    return Contender(NAME, lambda _: advance(_BLOCK), [None], _BLOCK)


def load() -> ctypes.CDLL:
    """Compile and load the program."""
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as folder:
        library = Path(folder) / "tictactoe.so"
        source = Path(__file__).with_name("tictactoe.c")
        command = ["cc", "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        return ctypes.CDLL(str(library))
