"""Results of iterations: one form for all algorithms, with the losses that an algorithm has."""

import math
from pathlib import Path
from typing import Any

import pytest

import hotloop
from hotloop.training import Callback
from hotloop.training.callbacks import IterationReport, TimeSplit
from hotloop.training.counters import Counters, Since
from hotloop.training.iteration_stats import IterationStats
from tests.training.processes import recorded

LOSSES = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm", "epochs")
RESULT: dict[str, Any] = {
    **dict.fromkeys(LOSSES, 0.5),
    "explained_variance": 0.25,
    "iterations": 2,
    "steps": 100,
    "gradient_steps": 8,
    "dropped": 1,
    "seconds_env": 1.0,
    "seconds_inference": 3.0,
    "seconds_learn": 2.0,
    "seconds_total": 4.0,
}


class Records(Callback):
    def __init__(self) -> None:
        self.reports: list[IterationReport] = []

    def iteration(self, report: IterationReport) -> None:
        self.reports.append(report)


def test_elapsed_time_is_divided_in_proportion_to_cpu_time() -> None:
    stats = IterationStats.from_ppo(RESULT, 5.0)
    assert stats.time == TimeSplit(env=0.5, inference=1.5, copy=0.0, learn=2.0)
    assert stats.seconds == 5.0


def test_losses_are_averaged_over_iterations_and_the_latest_values_kept() -> None:
    since = Since()
    since.add(IterationStats.from_ppo(RESULT, 1.0))
    since.add(IterationStats.from_ppo({**RESULT, "iterations": 6, "kl": 1.5, "explained_variance": 0.75}, 1.0))
    assert since.sums["kl"] / since.iterations == (2 * 0.5 + 6 * 1.5) / 8
    assert since.latest == {"explained_variance": 0.75}


def test_counters_of_version_0_1_are_read() -> None:
    kept = Counters().to_json()
    kept["since"] |= {"sums": dict.fromkeys(LOSSES, 3.0), "explained_variance": 0.5}
    del kept["since"]["latest"]
    assert Counters.from_json(kept, 100).since.latest == {"explained_variance": 0.5}


@pytest.mark.parametrize(
    ("env", "config", "losses"),
    [
        ("tictactoe", {"train.algorithm": "q-learning", "tabular.iteration": 1024}, set()),
        ("cartpole", {}, {*LOSSES, "explained_variance", "entropy_weight"}),
    ],
)
def test_a_record_has_the_losses_of_its_algorithm(
    env: str, config: dict[str, Any], losses: set[str], tmp_path: Path
) -> None:
    heard = Records()
    settings = {**config, "train.until": None, "train.evaluate_episodes": 0}
    run = hotloop.train(env, steps=20_000, config=settings, home=tmp_path, callbacks=[heard], progress=False)
    assert {name for report in heard.reports for name in report.losses} == losses
    for line in recorded(run.path):
        assert losses <= line.keys()
        assert {"policy_loss", "kl"} & line.keys() == losses & {"policy_loss", "kl"}
    assert all(math.isfinite(value) for report in heard.reports for value in report.losses.values())
