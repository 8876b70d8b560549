"""The suite `sweep`: trials per second of whole sweeps, ours and other tools', on the same trials in the same run.

Everybody trains and evaluates the same settings with the same session; what differs is how trials get to processes.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hotloop.bench.measure import Rate
from hotloop.sweeps.api import open_sweep
from hotloop.sweeps.definition import Definition, define
from hotloop.sweeps.display import Silent
from hotloop.sweeps.samplers import random_settings
from hotloop.sweeps.sweep import run_sweep
from hotloop.sweeps.tasks import Segment, Task
from hotloop.sweeps.trial import run_task
from hotloop.sweeps.warm import Warm

UNIT = "trials/s"
# cartpole, 100 k steps, an evaluation of 100 episodes.
_FIXED = {"train.steps": 100_000}
_SPACE = {
    "ppo.learning_rate": "log(1e-3, 1e-2)",
    "ppo.gamma": "log1m(0.95, 0.999)",
    "ppo.gae_lambda": "log1m(0.9, 0.99)",
    "ppo.clip": "real(0.1, 0.4)",
}
_PLAIN: dict[str, Any] = {"sampler": "random", "keep": 0, "confirm": {"top": 0}}

Contestant = Callable[[Definition, Sequence[dict[str, Any]]], float]
"""Runs trials with these settings, and returns the seconds."""


@dataclass(frozen=True)
class SweepRow:
    """A way of running trials, with its rate."""

    name: str
    rate: Rate
    ratio: float | None = None
    """Our rate over this one's."""

    def as_json(self) -> dict[str, Any]:
        """The row for `--json`."""
        return {
            "name": self.name,
            "value": self.rate.value,
            "unit": UNIT,
            "spread": self.rate.spread,
            "ratio": {} if self.ratio is None else {"hotloop": self.ratio},
            "rounds": list(self.rate.rounds),
        }


def definition() -> Definition:
    """Return the sweep that everybody runs."""
    return define("cartpole", entries={**_SPACE, **_FIXED}, options=_PLAIN)


def settings_of(definition: Definition, count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return the settings of trials; every round has others."""
    return [random_settings(definition.space, 0, index) for index in range(first, first + count)]


def train_one(definition: Definition, settings: dict[str, Any], index: int = 0) -> float:
    """Train and evaluate one trial in this process; return its value."""
    task = Task(f"trial/{index}", (Segment(settings, index),))
    result, _ = run_task(task, definition, Warm(), lambda steps: None)
    value: float = result["evaluations"][0]["value"]
    return value


def run_hotloop(definition: Definition, settings: Sequence[dict[str, Any]]) -> float:
    """Run as many trials as a sweep, start of its workers included."""
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as home:
        options = {**_PLAIN, "trials": len(settings), "seed": len(settings)}
        sweep = open_sweep("cartpole", space=_SPACE, fixed=_FIXED, options=options, home=home)
        start = time.perf_counter()
        run_sweep(sweep, slots=None, listener=Silent())
        return time.perf_counter() - start


def compare(
    peers: Sequence[tuple[str, int, Contestant]],
    *,
    trials: int,
    rounds: int,
    progress: Callable[[str, str, float], object],
) -> list[SweepRow]:
    """Measure ours and the peers' in turns; each peer runs a number of trials that takes it about as long."""
    common = definition()
    contestants: list[tuple[str, int, Contestant]] = [("Hotloop", trials, run_hotloop), *peers]
    rates: dict[str, list[float]] = {name: [] for name, _, _ in contestants}
    for turn in range(rounds):
        for number, (name, count, run) in enumerate(contestants):
            progress(name, f"{count} trials", (turn * len(contestants) + number) / (rounds * len(contestants)))
            rates[name].append(count / run(common, settings_of(common, count, turn * count)))
    ours = Rate(tuple(rates["Hotloop"]))
    return [
        SweepRow(name, Rate(tuple(found)), None if name == "Hotloop" else ours.value / Rate(tuple(found)).value)
        for name, found in rates.items()
    ]


def overhead(trials: int) -> tuple[float, float]:
    """Return milliseconds of CPU time of a bare session, and what a trial of a sweep takes beyond it.

    Two sweeps of different length are compared, so that the start of workers does not count.
    """
    common = definition()

    def cpu_of_sweep(count: int) -> float:
        before = _cpu()
        run_hotloop(common, settings_of(common, count))
        return _cpu() - before

    settings = settings_of(common, trials)
    train_one(common, settings[0])
    start = time.process_time()
    for index, each in enumerate(settings):
        _bare(common, each, index)
    bare = (time.process_time() - start) / trials
    whole = (cpu_of_sweep(3 * trials) - cpu_of_sweep(trials)) / (2 * trials)
    return 1e3 * bare, 1e3 * (whole - bare)


def _bare(definition: Definition, settings: dict[str, Any], seed: int) -> None:
    from hotloop.training.session import Session

    session = Session(definition.config(settings, seed))
    session.keeps_replays = False
    target = session.config.train.steps
    assert target is not None
    while session.counters.steps < target:
        session.advance(-(-(target - session.counters.steps) // session.steps_per_iteration), 60.0)
    session.evaluate()
    session.close()


def halving_seconds() -> float:
    """Return the seconds of 200 trials of cartpole with halving, from nothing to the last result."""
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as home:
        prune = {"by": "halving", "first": 16384, "factor": 3}
        options = {**_PLAIN, "trials": 200, "prune": prune}
        sweep = open_sweep("cartpole", space=_SPACE, fixed=_FIXED, options=options, home=home)
        start = time.perf_counter()
        run_sweep(sweep, slots=None, listener=Silent())
        return time.perf_counter() - start


def _cpu() -> float:
    """CPU seconds of this process and of children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
