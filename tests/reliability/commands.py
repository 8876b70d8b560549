"""Real `hotloop` processes under attack: started, limited in time, judged by how they ended."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import hotloop

ROOT = Path(__file__).resolve().parents[2]
# A command that has not ended by then hangs. Other work on the machine is allowed for.
TIMEOUT = 60.0
_TRACES = re.compile(
    r"Traceback \(most recent call last\)|panicked at|PanicException|Fatal Python error|Segmentation fault"
    r"|Exception ignored in|terminate called|SystemError"
)
# Settings of the calling shell that would change what a command does.
_INHERITED = ("HOTLOOP_HOME", "HOTLOOP_STORE", "HOTLOOP_ISA", "COLUMNS", "LINES", "LD_PRELOAD")


@dataclass(frozen=True)
class Ended:
    """A command that ended: by itself, by a signal, or by the time limit."""

    command: Sequence[str]
    code: int
    out: str
    err: str
    timed_out: bool = False

    def crash(self) -> str | None:
        """The reason why this is no orderly end, whatever the exit code; nothing if it is one."""
        shown = " ".join(self.command)[:120]
        if self.timed_out:
            return f"'{shown}' hangs"
        for text in (self.err, self.out):
            found = _TRACES.search(text)
            # An error of the user's own env shows where in its code it was, after the message.
            if found is not None and "hotloop: " not in text[: found.start()]:
                return f"'{shown}' ends with a traceback: {last_line(text)}"
        if self.code < 0:
            return f"'{shown}' died of {signal.Signals(-self.code).name}"
        return None

    def complaint(self) -> str:
        """The error message, without progress lines and notes before it."""
        return next((line for line in reversed(self.err.splitlines()) if line.startswith("hotloop: ")), "")


def last_line(text: str) -> str:
    """The last line that has anything on it: the exception, after a traceback."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command whose runs are below `home`."""
    clean = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    # The package under test, and the repository, from which workers of Python envs import them.
    package = str(Path(hotloop.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [str(ROOT), package, clean.get("PYTHONPATH")]))
    return {**clean, "PYTHONPATH": path, "HOTLOOP_HOME": str(home), **(more or {})}


def start(home: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `hotloop ARGUMENTS` in a session of its own, with these environment variables besides."""
    return subprocess.Popen(
        [sys.executable, "-m", "hotloop", *arguments],
        env=environment(home, variables),
        cwd=home.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = TIMEOUT, shown: Sequence[str] | None = None) -> Ended:
    """Wait for a process; the time limit ends it and everything that it started."""
    assert isinstance(process.args, list)
    command = shown or ["hotloop", *process.args[3:]]
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return Ended(command, process.returncode, out, err, timed_out=True)
    return Ended(command, process.returncode, out, err)


def run(home: Path, *arguments: str, variables: Mapping[str, str] | None = None, timeout: float = TIMEOUT) -> Ended:
    """Run `hotloop ARGUMENTS` to its end."""
    return finish(start(home, *arguments, variables=variables), timeout)


def orphans(home: Path, patience: float = 10.0) -> list[str]:
    """Processes of a killed command that are still there after some time: whoever has its home in the environment."""
    mark = f"HOTLOOP_HOME={home}\0".encode()
    until = time.monotonic() + patience
    while found := [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal() and _has(entry, mark)]:
        if time.monotonic() > until:
            return [f"process {entry.name} outlived the command that started it" for entry in found]
        time.sleep(0.05)
    return []


def _has(process: Path, mark: bytes) -> bool:
    try:
        return mark in (process / "environ").read_bytes()
    except OSError:
        return False
