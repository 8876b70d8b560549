"""The suite `tracking`: the cost of recording, from the same run with and without records, in turns."""

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hotloop.bench.measure import Rate, middle
from hotloop.config import Config, load_config
from hotloop.config.models import TrackConfig
from hotloop.training.start import begin
from hotloop.training.trainer import Trainer

UNIT = "steps/s"
# Small rollouts, which make many records a second, and large ones; all with the usual interval.
CASES: dict[str, dict[str, object]] = {
    "32 envs x 64": {},
    "1024 envs x 64": {"runner.num_envs": 1024, "ppo.minibatch_size": 16384, "ppo.epochs": 1},
}
# Neighbouring intervals used to estimate an interval's duration without the recorder.
_NEIGHBOURS = 8
# Sampling period in seconds, as short as the larger case's iterations.
_PACE = 0.01
# CPU seconds above which a thread counts as active.
_AT_WORK = 1e-5


@dataclass(frozen=True)
class Tick:
    """A sample of a run: its progress and the CPU time of the recorder's threads."""

    at: float
    steps: int
    recording: float


@dataclass(frozen=True)
class TrackingRow:
    """Rates with and without records; each pair, and each recorded run, gives an estimate of the cost."""

    name: str
    recorded: Rate
    unrecorded: Rate
    beside: tuple[float, ...]
    """Share of each recorded run's time lost while the recorder was active."""
    shares: tuple[float, ...]
    """Share of each recorded run's CPU time used by the recorder's threads."""

    @property
    def costs(self) -> tuple[float, ...]:
        """Share of speed lost in each round, relative to the neighbouring run without records."""
        pairs = zip(self.recorded.rounds, self.unrecorded.rounds, strict=True)
        return tuple(1 - ours / bare for ours, bare in pairs)

    def as_json(self) -> dict[str, Any]:
        """The row for `--json`."""
        return {
            "name": self.name,
            "value": self.recorded.value,
            "unit": UNIT,
            "spread": self.recorded.spread,
            "ratio": {"without records": self.recorded.value / self.unrecorded.value},
            "cost": statistics.median(self.costs),
            "cost_interval": middle(self.costs),
            "beside": statistics.median(self.beside),
            "beside_interval": middle(self.beside),
            "cpu_share": statistics.median(self.shares),
            "rounds": list(self.recorded.rounds),
            "rounds_without": list(self.unrecorded.rounds),
        }


class _Watched(Trainer):
    """A trainer that samples its progress and its recorder's CPU time."""

    def _start(self) -> None:
        super()._start()
        self._plan.pace = _PACE
        self._clocks = [
            time.pthread_getcpuclockid(thread.ident)
            for thread in threading.enumerate()
            if thread.name.startswith("hotloop-") and thread.ident is not None
        ]
        self.ticks: list[Tick] = []
        self._show_progress()

    def _show_progress(self, collected: int = 0, spent: float = 0.0) -> None:
        steps, recording = self.session.counters.steps, sum(map(time.clock_gettime, self._clocks))
        self.ticks.append(Tick(time.perf_counter(), steps, recording))
        super()._show_progress(collected, spent)


def compare(
    name: str,
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[str, float], object] = lambda what, share: None,
) -> TrackingRow:
    """Measure one of the `CASES`."""
    progress("finding out how many steps that takes", 0.0)
    steps = 1 << 22
    ticks, _ = _run(_config(name, steps), recorded=True)
    config = _config(name, max(steps // 4, round(_rate(ticks) * seconds)))
    rates: dict[bool, list[float]] = {True: [], False: []}
    beside, shares = [], []
    for turn in range(rounds):
        for recorded in (True, False) if turn % 2 else (False, True):
            progress("with records" if recorded else "without", turn / rounds)
            ticks, worked = _run(config, recorded=recorded)
            rates[recorded].append(_rate(ticks))
            if recorded:
                beside.append(lost_beside(ticks))
                shares.append((ticks[-1].recording - ticks[0].recording) / worked)
    return TrackingRow(name, Rate(tuple(rates[True])), Rate(tuple(rates[False])), tuple(beside), tuple(shares))


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


def _run(config: Config, *, recorded: bool) -> tuple[list[Tick], float]:
    """Return a run's samples and CPU time."""
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as home:
        worked = time.process_time()
        trainer = begin(config, home=home, recorded=recorded, trainer=_Watched)
        assert isinstance(trainer, _Watched)
        trainer.run()
        return trainer.ticks, time.process_time() - worked


def _rate(ticks: Sequence[Tick]) -> float:
    return (ticks[-1].steps - ticks[0].steps) / (ticks[-1].at - ticks[0].at)


def lost_beside(ticks: Sequence[Tick]) -> float:
    """Return the share of a run's time lost while its recorder was active.

    A part of the run in which the recorder's threads took CPU time, and the one that follows, are compared with the
    nearest others: what else disturbs the machine mostly lasts longer than all of them, and is left out by that.
    """
    pairs = [(a, b) for a, b in itertools.pairwise(ticks) if b.steps > a.steps]
    busy = [b.recording - a.recording >= _AT_WORK for a, b in pairs]
    idle = [i for i in range(len(pairs)) if not busy[i] and not (i and busy[i - 1])]
    if not idle:
        raise ValueError("the recorder was always at work: there is nothing to compare with")
    lost = 0.0
    for i in set(range(len(pairs))) - set(idle):
        near = [pairs[j] for j in sorted(idle, key=lambda j: abs(j - i))[:_NEIGHBOURS]]
        pace = sum(b.at - a.at for a, b in near) / sum(b.steps - a.steps for a, b in near)
        a, b = pairs[i]
        lost += (b.at - a.at) - pace * (b.steps - a.steps)
    return lost / (ticks[-1].at - ticks[0].at)


def added_seconds(*, rounds: int, progress: Callable[[str, float], object] = lambda what, share: None) -> list[float]:
    """Return the added seconds of start and end with records, in separate processes, per round."""
    found = []
    for turn in range(rounds):
        progress("start and end", turn / rounds)
        order = (True, False) if turn % 2 else (False, True)
        taken = {recorded: _timed_alone(recorded) for recorded in order}
        found.append(taken[True] - taken[False])
    return found


def _timed_alone(recorded: bool) -> float:
    code = f"from hotloop.bench.tracking import shortest; shortest({recorded})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout))


def shortest(recorded: bool) -> None:
    """Print the seconds of a run with one record, including its imports."""
    config = _config("32 envs x 64", 16 * 32 * 64)
    begun = time.perf_counter()
    _run(config, recorded=recorded)
    print(time.perf_counter() - begun)
