"""The same work in plain C, compiled where there is a compiler: what one thread of this machine can be asked for."""

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
    """Why it cannot be measured, if it cannot."""
    return None if shutil.which("cc") else "there is no C compiler (cc)"


def contender() -> Contender:
    """Q-learning on tictactoe, a block of steps a call."""
    advance = load().advance
    advance.argtypes = [ctypes.c_int64]
    return Contender(NAME, lambda _: advance(_BLOCK), [None], _BLOCK)


def load() -> ctypes.CDLL:
    """Compiles the program and loads it."""
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as folder:
        library = Path(folder) / "tictactoe.so"
        source = Path(__file__).with_name("tictactoe.c")
        command = ["cc", "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        return ctypes.CDLL(str(library))
