"""The examples run as their first lines say. `sb3_cartpole.py` is run by `tests/envs/test_sb3.py`."""

import sys
from pathlib import Path

from tests.commands import run


def test_quickstart(repository: Path) -> None:
    told = run(sys.executable, "-W", "error", "examples/quickstart.py", cwd=repository)
    assert "episodes finished, mean return 4" in told
    assert "repeated exactly: True" in told
