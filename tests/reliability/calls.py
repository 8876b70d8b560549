"""Fuzzed calls: whatever arguments, orders and threads, a call returns or raises an exception of Python's own kinds."""

import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

from tests.reliability import commands
from tests.reliability.engine import Result

_CALLS = 250
# Of a whole process; single calls take milliseconds.
_LIMIT = 120.0


class Calls:
    """A process that makes some hundred calls, alone or from several threads."""

    name = "calls"

    def prepare(self, folder: Path, seed: int) -> None:
        """Need nothing."""

    def close(self) -> None:
        """Have nothing to end."""

    def attack(self, index: int, random: Random, folder: Path) -> Result:
        """Let a process call, and judge how it and its calls ended."""
        seed, threads = random.getrandbits(32), random.choice([1, 1, 1, 4])
        command = [sys.executable, "-m", "tests.reliability.caller", str(seed), str(_CALLS), str(threads)]
        log = folder / "calls"
        with log.open("w") as out:
            process = subprocess.Popen(
                command,
                env=commands.environment(folder / "home"),
                cwd=folder,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            done = commands.finish(process, _LIMIT)
        begun, bad = _read(log)
        problems = [f"{call} raised {error}" for call, error in bad]
        last = "; ".join(begun[-threads:])
        if done.timed_out:
            problems.append(f"a call hangs, one of the last: {last}")
        elif done.code != 0:
            problems.append(f"the process died ({done.code}) after: {last}: {_cause(done.err)[:300]}")
        return Result(f"{' '.join(command[1:])}", problems, len(begun))


def _read(log: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """The calls that a process began, and those that ended badly."""
    begun, bad = [], []
    for line in log.read_text(errors="replace").splitlines():
        try:
            kind, call, *error = json.loads(line)
        except ValueError:
            continue  # the last line of a process that died
        if kind == "call":
            begun.append(call)
        else:
            bad.append((call, error[0]))
    return begun, bad


def _cause(text: str) -> str:
    """The line that says why a process died: a panic's message, or the last one."""
    found = re.search(r"panicked at .*\n.*|memory allocation of .*|Fatal Python error.*", text)
    return found[0] if found is not None else commands.last_line(text)
