"""SIGKILL at random moments: a run that is resumed until its end must be the run that was never killed."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.reliability import commands, outcome, training_runs
from tests.reliability.engine import Result

# The torch learner's imports take longer than all of the others' runs.
_WEIGHTS = {"cartpole": 6, "pendulum": 6, "recall": 4, "tabular": 5, "workers": 3, "torch": 1}
_MOST = 4


class Kills:
    """Several kills of one run, of several kinds."""

    name = "kills"

    def __init__(self, kinds: Sequence[str] = tuple(_WEIGHTS)) -> None:
        self._kinds = kinds
        self._whole: dict[str, tuple[float, dict[str, Any]]] = {}

    def prepare(self, folder: Path, seed: int) -> None:
        """Train one run of each kind that nobody kills."""
        for kind in self._kinds:
            home = folder / f"whole-{kind}" / "home"
            home.parent.mkdir()
            began = time.monotonic()
            training_runs.whole(kind, home)
            self._whole[kind] = time.monotonic() - began, outcome.of(home)

    def close(self) -> None:
        """Have nothing to end."""

    def attack(self, index: int, random: Random, folder: Path) -> Result:
        """Kill a run some times, resume it each time, and compare."""
        kind = random.choices(self._kinds, [_WEIGHTS[kind] for kind in self._kinds])[0]
        home = folder / "home"
        seconds, expected = self._whole[kind]
        kills, problems, moments = 0, [], []
        for _ in range(random.randint(1, _MOST)):
            process = commands.start(home, *training_runs.resumed(kind, home))
            moment = random.uniform(0.2, 1.0) * seconds
            deadline = time.monotonic() + moment
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
                moments.append(f"{moment:.2f} s")
                commands.finish(process)
                problems += commands.orphans(home)
            else:
                problems += checked(commands.finish(process))
        problems += finished(kind, home, expected)
        return Result(f"{kind} killed after {', '.join(moments) or 'its end'}", problems, kills)


def checked(done: commands.Ended) -> list[str]:
    """Return the fault of a command that nothing disturbed."""
    crash = done.crash() or (f"'{' '.join(done.command)}' failed: {done.err.strip()[-300:]}" if done.code else None)
    return [] if crash is None else [crash]


def finished(kind: str, home: Path, expected: dict[str, Any], *, stopped: bool = False) -> list[str]:
    """How a run that was resumed to its end differs from one that nothing disturbed; so must a store made again.

    One that was `stopped` in an orderly way made a checkpoint there besides.
    """
    if problems := checked(commands.run(home, *training_runs.resumed(kind, home))):
        return problems
    found = outcome.of(home)
    if stopped:
        _leave_out_stops(expected["store"], found["store"])
    problems = list(outcome.differences(expected, found))
    for path in home.glob("hotloop.db*"):
        path.unlink()
    problems += checked(commands.run(home, "runs", "list", "--json"))
    rebuilt = outcome.stored(home / "hotloop.db")
    if stopped:
        _leave_out_stops(expected["store"], rebuilt)
    return problems + list(outcome.differences(expected["store"], rebuilt, "rebuilt store"))


def _leave_out_stops(expected: dict[str, Any], found: dict[str, Any]) -> None:
    found["checkpoints"] = [row for row in found.get("checkpoints", []) if row in expected["checkpoints"] or row[2]]
