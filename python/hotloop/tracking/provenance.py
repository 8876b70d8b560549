"""Provenance of a run: machine, versions, revision of the code."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any


def machine() -> dict[str, Any]:
    """The machine that a run is made on."""
    from hotloop import _core

    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": _core.usable_cores(),
        "isa": _core.isa(),
    }


def versions() -> dict[str, str]:
    """Versions of the imported packages that could affect a result."""
    from hotloop import _core

    found = {"hotloop": _core.__version__, "python": platform.python_version()}
    for name in ("numpy", "gymnasium", "torch"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "__version__"):
            found[name] = str(module.__version__)
    return found


def git_revision() -> str | None:
    """The commit of the working folder, with `-dirty` if files differ from it; `None` outside of a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
