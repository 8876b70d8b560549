"""Running the real command in a process of its own."""

import atexit
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.fork_server import ROOT, ForkServer

_busy = threading.Lock()
_server: ForkServer | None = None
_base = dict(os.environ)
# An interpreter reads these when it starts, or native libraries when they are loaded.
_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "HOTLOOP_ISA", "OMP_", "MKL_", "TORCH")


def hotloop(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Outcome of `hotloop ARGUMENTS`: forked from a warm interpreter, or started afresh if that must differ."""
    global _server
    command = [sys.executable, "-m", "hotloop", *arguments]
    own = {**os.environ, **environment}
    changed = (name for name in own.keys() | _base.keys() if own.get(name) != _base.get(name))
    if any(name.startswith(_AT_START) for name in changed) or not _busy.acquire(blocking=False):
        return subprocess.run(command, capture_output=True, text=True, env=own)
    try:
        if _server is None or not _server.is_alive:
            _server = ForkServer(_base, ROOT)
            atexit.register(_server.close)
        done = _server.run(*arguments, environment=own, cwd=Path.cwd())
    finally:
        _busy.release()
    return subprocess.CompletedProcess(command, done.code, done.out, done.err)


def hotloop_json(*arguments: str) -> list[dict[str, Any]]:
    """The objects that `hotloop ARGUMENTS --json` printed; each line must be one, with an event, `end` the last."""
    done = hotloop(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(isinstance(event["event"], str) for event in events)
    assert [event["event"] for event in events].index("end") == len(events) - 1
    return events


def complaint(*arguments: str) -> str:
    """The one line on standard error with which `hotloop ARGUMENTS` refuses; nothing may be on standard output."""
    done = hotloop(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    # A benchmark may have said before that the machine is busy.
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("Other work")]
    assert line.startswith("hotloop: ")
    return line
