"""The suite `tracking`: the same run with records and without any, taking turns; what recording costs."""

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hotloop.bench.measure import Rate
from hotloop.config import Config, load_config
from hotloop.training import Callback
from hotloop.training.callbacks import CheckpointReport, StartReport
from hotloop.training.trainer import Trainer

UNIT = "steps/s"
# Small rollouts, which make many records a second, and large ones; all with the usual interval.
CASES: dict[str, dict[str, object]] = {
    "32 envs x 64": {},
    "1024 envs x 64": {"runner.num_envs": 1024, "ppo.minibatch_size": 16384, "ppo.epochs": 1},
}


@dataclass(frozen=True)
class TrackingRow:
    """One run's rates with and without records, and the seconds that it takes besides training."""

    name: str
    recorded: Rate
    unrecorded: Rate
    around: tuple[float, float]
    """Seconds before the first iteration and after the last, with records and without."""

    @property
    def cost(self) -> float:
        """What part of the speed is lost: the median over the rounds, each against its neighbour."""
        return statistics.median(self._costs)

    @property
    def uncertainty(self) -> float | None:
        """The standard error of the cost; unknown from a single round."""
        if len(self._costs) < 2:
            return None
        # A median of normal numbers is so much less certain than their mean.
        return math.sqrt(math.pi / 2 / len(self._costs)) * statistics.stdev(self._costs)

    @property
    def _costs(self) -> list[float]:
        pairs = zip(self.recorded.rounds, self.unrecorded.rounds, strict=True)
        return [1 - ours / bare for ours, bare in pairs]

    def as_json(self) -> dict[str, Any]:
        """The row as `--json` gives it."""
        return {
            "name": self.name,
            "value": self.recorded.value,
            "unit": UNIT,
            "spread": self.recorded.spread,
            "ratio": {"without records": self.recorded.value / self.unrecorded.value},
            "cost": self.cost,
            "cost_uncertainty": self.uncertainty,
            "seconds_added": self.around[0] - self.around[1],
            "rounds": list(self.recorded.rounds),
            "rounds_without": list(self.unrecorded.rounds),
        }


class _Clock(Callback):
    """Notes when training begins and when its last checkpoint is written."""

    began = ended = 0.0

    def start(self, report: StartReport) -> None:
        self.began = time.perf_counter()

    def checkpoint(self, report: CheckpointReport) -> None:
        self.ended = time.perf_counter()


def compare(
    name: str,
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[str, float], object] = lambda what, share: None,
) -> TrackingRow:
    """Measures one of the `CASES`."""
    progress("finding out how many steps that takes", 0.0)
    steps = 1 << 20
    rate, _ = _run(_config(name, steps), recorded=True)
    config = _config(name, max(steps, round(rate * seconds)))
    rates: dict[bool, list[float]] = {True: [], False: []}
    around: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(rounds):
        for recorded in (True, False) if turn % 2 else (False, True):
            progress("with records" if recorded else "without", turn / rounds)
            rate, besides = _run(config, recorded=recorded)
            rates[recorded].append(rate)
            around[recorded].append(besides)
    besides_both = statistics.median(around[True]), statistics.median(around[False])
    return TrackingRow(name, Rate(tuple(rates[True])), Rate(tuple(rates[False])), besides_both)


def _config(name: str, steps: int) -> Config:
    # Neither evaluations nor checkpoints on the way: they would cost the same in both.
    changes = {"train.steps": steps, "train.until": None, "train.evaluate_episodes": 0, "train.checkpoint_every": 0}
    return load_config("cartpole", overrides={**CASES[name], **changes})


def _run(config: Config, *, recorded: bool) -> tuple[float, float]:
    """Steps per second of the training itself, and the seconds of all the rest."""
    clock = _Clock()
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as home:
        begun = time.perf_counter()
        run = Trainer.begin(config, home=home, callbacks=[clock], recorded=recorded).run()
        total = time.perf_counter() - begun
    training = clock.ended - clock.began
    return run.steps / training, total - training
