"""Shared libraries for tests, compiled on the spot."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hotloop.envs.abi import INCLUDE


def compiled(source: Path, folder: Path, *flags: str) -> Path:
    """The library that a C compiler makes of a source; without one, the test is left out."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (cc)")
    target = folder / f"{source.stem}.so"
    command = [compiler, "-O2", "-shared", "-fPIC", f"-I{INCLUDE}", *flags, str(source), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target
