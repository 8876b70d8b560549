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
from hotloop.config.models import TrackConfig
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
    share: float
    """Which part of the process's CPU time the recorder's threads took: steadier than a difference of rates."""

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
            "cpu_share": self.share,
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
    rate = _run(_config(name, steps), recorded=True).rate
    config = _config(name, max(steps, round(rate * seconds)))
    rates: dict[bool, list[float]] = {True: [], False: []}
    around: dict[bool, list[float]] = {True: [], False: []}
    shares = []
    for turn in range(rounds):
        for recorded in (True, False) if turn % 2 else (False, True):
            progress("with records" if recorded else "without", turn / rounds)
            found = _run(config, recorded=recorded)
            rates[recorded].append(found.rate)
            around[recorded].append(found.around)
            if recorded:
                shares.append(found.share)
    besides_both = statistics.median(around[True]), statistics.median(around[False])
    return TrackingRow(
        name, Rate(tuple(rates[True])), Rate(tuple(rates[False])), besides_both, statistics.median(shares)
    )


def _config(name: str, steps: int) -> Config:
    # Neither evaluations nor checkpoints on the way: they would cost the same in both. Cartpole's own config, which is
    # for runs of half a second, records twice as often as others do.
    changes = {
        "track.interval": TrackConfig().interval,
        "train.steps": steps,
        "train.until": None,
        "train.evaluate_episodes": 0,
        "train.checkpoint_every": 0,
    }
    return load_config("cartpole", overrides={**CASES[name], **changes})


@dataclass(frozen=True)
class _Found:
    """Of one run: steps per second of the training itself, seconds of the rest, the recorder's part of the CPU time."""

    rate: float
    around: float
    share: float


def _run(config: Config, *, recorded: bool) -> _Found:
    clock = _Clock()
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as home:
        begun, worked = time.perf_counter(), time.process_time()
        trainer = Trainer.begin(config, home=home, callbacks=[clock], recorded=recorded)
        run = trainer.run()
        total, worked = time.perf_counter() - begun, time.process_time() - worked
    training = clock.ended - clock.began
    return _Found(run.steps / training, total - training, trainer.recording_seconds / worked)
