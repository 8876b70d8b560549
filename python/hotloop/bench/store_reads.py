"""Duration of commands that read a store, from process start to end."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from hotloop.training import train

# Size of the store: runs, and points of one metric in one of them.
RUNS: Final = 1000
POINTS: Final = 100_000
_METRIC: Final = "benchmark"
_STORE: Final = "store.db"
_PLOT: Final = ("runs", "plot", "last", "--metric", _METRIC)


@dataclass(frozen=True)
class ReadingRow:
    """Measured seconds of one command."""

    name: str
    seconds: tuple[float, ...]

    @property
    def value(self) -> float:
        """The median."""
        return statistics.median(self.seconds)

    def as_json(self, bare: float) -> dict[str, Any]:
        """The row for `--json`; `bare` is the time of a command that reads nothing."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": "s",
            "ratio": {"hotloop --help": self.value / bare},
            "rounds": list(self.seconds),
        }


def read_store(*, rounds: int, progress: Callable[[str, float], object] = lambda what, share: None) -> list[ReadingRow]:
    """Create the store and run the commands in turns; the first row is a command that reads nothing."""
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as name:
        home = Path(name)
        progress("filling a store", 0.0)
        _fill(home)
        commands: dict[str, Sequence[str]] = {
            "hotloop --help": ("--help",),
            f"list {RUNS} runs": ("runs", "list"),
            f"{POINTS} points, terminal": _PLOT,
            f"{POINTS} points, PNG": (*_PLOT, "--png", str(home / "curve.png")),
        }
        found: dict[str, list[float]] = {what: [] for what in commands}
        for turn in range(rounds):
            for what, arguments in commands.items():
                progress(what, turn / rounds)
                found[what].append(_timed(arguments, home))
    return [ReadingRow(what, tuple(seconds)) for what, seconds in found.items()]


def _fill(home: Path) -> None:
    """One real run, copies of its row, and points beside its own."""
    from hotloop.tracking.database import Database
    from hotloop.tracking.store_url import find_store_url

    settings = {"train.until": None, "train.evaluate_episodes": 0}
    train("cartpole", steps=4096, config=settings, home=home, store=str(home / _STORE), progress=False)
    url = find_store_url(home / _STORE, home)
    assert url is not None
    with Database(url) as database, database.transaction():
        found = database.execute("SELECT * FROM runs")
        run = dict(zip([column[0] for column in found.description], found.fetchone(), strict=True))
        number = run.pop("number")
        copies = [
            {**run, "id": f"{i:08x}", "name": f"copy-{i}", "path": str(home / f"copy-{i}"), "created": i}
            for i in range(RUNS - 1)
        ]
        database.insert("runs", list(run), [list(copy.values()) for copy in copies])
        key = database.key_numbers([_METRIC])[_METRIC]
        points = [(number, key, step, run["created"] + step / 1000, step * 7919 % 1000) for step in range(POINTS)]
        database.insert("metrics", ("run", "key", "step", "time", "value"), points)


def _timed(arguments: Sequence[str], home: Path) -> float:
    environment = {**os.environ, "HOTLOOP_HOME": str(home), "HOTLOOP_STORE": str(home / _STORE)}
    begun = perf_counter()
    subprocess.run([sys.executable, "-m", "hotloop", *arguments], env=environment, check=True, capture_output=True)
    return perf_counter() - begun
