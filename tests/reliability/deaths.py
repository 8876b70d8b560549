"""Death or refusal at every file operation of a run: at each one, what is on the disk must be enough to go on from."""

import errno
import subprocess
from pathlib import Path
from random import Random
from typing import Any

from tests.reliability import commands, outcome, training_runs
from tests.reliability.engine import Result
from tests.reliability.kills import finished

_KIND = "brief"
# Deaths count most. A full disk stays full until the run is resumed; other refusals happen once, or last.
_FAULTS = {
    "kill": ("kill", False, 8),
    "death in the middle of a write": ("partial", False, 3),
    "full disk": (str(errno.ENOSPC), True, 4),
    "one ENOSPC": (str(errno.ENOSPC), False, 2),
    "one EIO": (str(errno.EIO), False, 3),
    "broken disk": (str(errno.EIO), True, 2),
    "read-only file system": (str(errno.EROFS), True, 2),
    "one EMFILE": (str(errno.EMFILE), False, 1),
    "quota": (str(errno.EDQUOT), True, 1),
}


class Deaths:
    """One fault at one operation of one run."""

    name = "deaths"

    def prepare(self, folder: Path, seed: int) -> None:
        """Compile the library, count a run's operations, and put all places in a random order."""
        self._library = compile_library(folder)
        home = folder / "whole" / "home"
        log = folder / "operations"
        home.parent.mkdir()
        settings = self._settings(home, 0, "kill", lasts=False, log=log)
        done = commands.run(home, *training_runs.command(_KIND), variables=settings)
        assert done.code == 0, done
        self._expected: dict[str, Any] = outcome.of(home)
        self._operations = [line.split(" ", 1)[1] for line in log.read_text().splitlines()]
        self._order = list(range(1, len(self._operations) + 1))
        Random(f"deaths {seed}").shuffle(self._order)

    def close(self) -> None:
        """Have nothing to end."""

    def attack(self, index: int, random: Random, folder: Path) -> Result:
        """Disturb a run at one operation, resume it, and compare."""
        at = self._order[index % len(self._order)]
        fault = random.choices(list(_FAULTS), [weight for _, _, weight in _FAULTS.values()])[0]
        kind, lasts, _ = _FAULTS[fault]
        home, log = folder / "home", folder / "operations"
        settings = self._settings(home, at, kind, lasts=lasts, log=log)
        done = commands.run(home, *training_runs.command(_KIND), variables=settings)
        reached = log.read_text().splitlines() if log.exists() else []
        where = reached[at - 1].split(" ", 1)[1] if len(reached) >= at else self._operations[at - 1]
        problems = self._judge(done, home, refused=kind.isdecimal())
        problems += commands.orphans(home)
        problems += finished(_KIND, home, self._expected)
        if problems and done.code > 0:
            problems.append(f"the disturbed run had said: {commands.last_line(done.err)}"[:400])
        return Result(f"{fault} at operation {at}, {where}", problems)

    def _judge(self, done: commands.Ended, home: Path, *, refused: bool) -> list[str]:
        """Judge how the disturbed run itself ended: a refusal is survived, or reported in one line."""
        if not refused:
            return []
        if crash := done.crash():
            return [crash]
        if done.code == 0:
            # What it reported as done must be there already.
            found = outcome.weights(home / "runs" / training_runs.NAME)
            return list(outcome.differences(self._expected["weights"], found, "weights before resuming"))
        return [] if done.complaint() else [f"exit code {done.code} without a message: {done.err.strip()[-300:]}"]

    def _settings(self, home: Path, at: int, kind: str, *, lasts: bool, log: Path) -> dict[str, str]:
        settings = {
            "LD_PRELOAD": str(self._library),
            "FAULT_ROOT": str(home),
            "FAULT_AT": str(at),
            "FAULT_KIND": kind,
            "FAULT_LOG": str(log),
        }
        return {**settings, **({"FAULT_LASTS": "1"} if lasts else {})}


def compile_library(folder: Path) -> Path:
    """Compile the library that makes file operations fail."""
    source = Path(__file__).with_name("faults.c")
    library = folder / "faults.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library
