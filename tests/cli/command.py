"""Running the real command in a process of its own."""

import json
import os
import subprocess
import sys
from typing import Any


def hotloop(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `hotloop ARGUMENTS` did."""
    command = [sys.executable, "-m", "hotloop", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


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
