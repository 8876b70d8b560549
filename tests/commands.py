"""Running real commands in tests, free of what the calling process has in its environment."""

import os
import subprocess
from pathlib import Path

# Set by an outer `make test` or an active environment; each would change what the command under test does.
INHERITED = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYO3_PYTHON")


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command that must succeed and return its standard output; a failure shows all that it printed."""
    environment = {name: value for name, value in os.environ.items() if name not in INHERITED}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
