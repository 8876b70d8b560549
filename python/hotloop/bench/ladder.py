"""The suite `ladder`: the packaged presets against each other, as whole runs of the trainer."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from hotloop.bench.measure import Contender, Rate, measure
from hotloop.config import Config, load_config
from hotloop.training import train

UNIT = "steps/s"
# From the slowest to the fastest.
RUNGS = ("baseline", "fast", "ultra-fast")
# Iterations of a measured run, records and the checkpoint at its end included.
ITERATIONS = 64


@dataclass(frozen=True)
class Rung:
    """A preset with its rate, also relative to the first."""

    preset: str
    work: str
    rate: Rate
    ratio: float

    def as_json(self) -> dict[str, Any]:
        """The row for `--json`."""
        return {
            "name": self.preset,
            "value": self.rate.value,
            "unit": UNIT,
            "spread": self.rate.spread,
            "ratio": {RUNGS[0]: self.ratio},
            "work": self.work,
            "rounds": list(self.rate.rounds),
        }


def climb(
    env: str,
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[str], object] = lambda preset: None,
) -> list[Rung]:
    """Measure every preset on an env, taking turns."""
    configs = [_config(env, preset) for preset in RUNGS]
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="hotloop-bench-"))
        contenders = [_contender(preset, config, home) for preset, config in zip(RUNGS, configs, strict=True)]
        rates = measure(contenders, seconds=seconds, rounds=rounds, progress=lambda contender: progress(contender.name))
    first = rates[0].value
    return [
        Rung(preset, _work(config), rate, rate.value / first)
        for preset, config, rate in zip(RUNGS, configs, rates, strict=True)
    ]


def _config(env: str, preset: str) -> Config:
    config = load_config(env, preset=preset)
    steps = ITERATIONS * config.runner.num_envs * config.ppo.horizon
    limits = {"train.steps": steps, "train.until": None, "train.evaluate_episodes": 0, "train.evaluate_every": 0}
    return load_config(env, preset=preset, overrides=limits)


def _contender(preset: str, config: Config, home: str) -> Contender:
    env, steps = config.env.name, config.train.steps
    assert steps is not None
    return Contender(
        preset, lambda _: train(env, config=config, home=home, progress=False), [None], work_per_pass=steps
    )


def _work(config: Config) -> str:
    rollout = config.runner.num_envs * config.ppo.horizon
    minibatches = -(-rollout // config.ppo.minibatch_size)
    return f"{config.runner.num_envs} x {config.ppo.horizon}, {config.ppo.epochs} x {minibatches}"
