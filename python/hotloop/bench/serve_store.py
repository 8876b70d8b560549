"""A large store for `hotloop bench serve`: one real run with long metrics, and copies of its row."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from hotloop.tracking.database import Database
from hotloop.tracking.store_url import find_store_url
from hotloop.training import train

METRICS: Final = 40
WIDE: Final = 2000
_COLUMNS: Final = ("run", "key", "step", "time", "value")
# Records written to copies come after all that the real run has.
BASE_STEP: Final = 10_000_000


def store_url(home: Path) -> Any:
    """The address of the store in a home."""
    url = find_store_url(home / "hotloop.db", home)
    assert url is not None
    return url


def fill(home: Path, runs: int, points: int, long: int) -> None:
    """Train `real` and give it 40 metrics of `points` points and one of `long`; copy it; add `wide-0`, 2000 metrics."""
    train_real(home)
    copy_runs(home, runs - 2, "copy")
    (wide,) = copy_runs(home, 1, "wide")
    with Database(store_url(home)) as database:
        real = number_of(database, "real")
        for name, size in [*((f"metric.{i}", points) for i in range(METRICS)), ("long", long)]:
            write_points(database, real, name, size)
        for i in range(WIDE):
            write_points(database, wide, f"wide.{i}", 20)


def train_real(home: Path) -> None:
    """A short real run, which has replays, checkpoints and evaluations."""
    train(
        "cartpole",
        steps=100_000,
        config={"train.until": None, "train.evaluate_episodes": 100},
        home=home,
        store=str(home / "hotloop.db"),
        name="real",
        progress=False,
    )


def number_of(database: Database, name: str) -> int:
    """The row number of a run."""
    ((number,),) = database.execute("SELECT number FROM runs WHERE name = ?", (name,)).fetchall()
    return int(number)


def write_points(database: Database, run: int, name: str, size: int) -> None:
    """Write a metric that goes up and down."""
    key = database.key_numbers([name])[name]
    with database.transaction():
        rows = [(run, key, step, 1e9 + step / 1000, step * 7919 % 1000) for step in range(size)]
        database.insert("metrics", _COLUMNS, rows)


def write_records(database: Database, numbers: list[int], step: int, count: int = 1) -> None:
    """Write records of all metrics to runs, as their recorders would."""
    now = time.time()
    names = [f"metric.{i}" for i in range(METRICS)]
    numbered = database.key_numbers(names)
    keys = [numbered[name] for name in names]
    with database.transaction():
        steps = range(BASE_STEP + step, BASE_STEP + step + count)
        rows = [(run, key, at, now, float(at % 1000)) for run in numbers for key in keys for at in steps]
        database.insert("metrics", _COLUMNS, rows, unique=("run", "key", "step"))
        for run in numbers:
            database.execute("UPDATE runs SET taken = taken + 1, seen = ? WHERE number = ?", (now, run))


def copy_runs(home: Path, count: int, prefix: str) -> list[int]:
    """Copy the row of the real run; return the numbers of the copies."""
    with Database(store_url(home)) as database, database.transaction():
        found = database.execute("SELECT * FROM runs WHERE name = ?", ("real",))
        run = dict(zip([column[0] for column in found.description], found.fetchone(), strict=True))
        run.pop("number")
        copies = [
            {**run, "id": f"{prefix}{i:08x}", "name": f"{prefix}-{i}", "path": str(home / f"{prefix}-{i}")}
            for i in range(count)
        ]
        database.insert("runs", list(run), [list(copy.values()) for copy in copies])
        rows = database.execute("SELECT number FROM runs WHERE id LIKE ?", (f"{prefix}%",)).fetchall()
    return [number for (number,) in rows]
