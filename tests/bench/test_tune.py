"""Tuning finds a shape, says why, and writes a config that training takes."""

from pathlib import Path

import pytest

from hotloop.bench.tune import Shape, tune
from tests.cli.command import complaint, hotloop, hotloop_json

COUNTER = "tests.runners.python_envs:counter"


def test_the_best_of_what_was_tried_is_given_with_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(env: str, options: object, shape: Shape, **keywords: object) -> float:
        """An env that waits: workers add up until there are eight, two envs in each are better than one."""
        return min(8, shape.workers) * min(2, shape.envs_per_worker) * 100.0

    monkeypatch.setattr("hotloop.bench.tune.measure_shape", steps)
    found = tune("mine:env", {}, cores=2, most_workers=64, seconds=1.0)
    assert (found.best.shape.workers, found.best.shape.envs_per_worker) == (8, 2)
    assert found.best.rate == max(trial.rate for trial in found.trials)
    assert "8 workers on 2 cores: its steps wait" in found.reasons[0]
    few = tune("mine:env", {}, cores=2, most_workers=2, seconds=1.0)
    assert few.best.shape.workers == 2
    assert "not allowed" in few.reasons[0]


def test_a_config_is_written_that_training_takes(tmp_path: Path) -> None:
    file = str(tmp_path / "tuned.yaml")
    *_, end = hotloop_json("bench", "tune", COUNTER, "--seconds", "0.02", "--max-workers", "1", "-o", file)
    assert end["best"] == {name: end["best"][name] for name in Shape(1, 1).config()}
    assert {row["unit"] for row in end["rows"]} == {"steps/s"}
    assert len(end["reasons"]) == 4
    *_, end = hotloop_json("train", COUNTER, "--config", file, "--steps", "10", "train.evaluate_episodes=0")
    assert end["steps"] > 0


def test_what_cannot_be_tuned_is_refused() -> None:
    assert "is a native env" in complaint("bench", "tune", "cartpole")
    failed = hotloop("bench", "tune", "tests.runners.python_envs:broken")
    assert failed.returncode == 2
    assert "there is no level file" in failed.stderr
    assert "--max-workers is 0" in complaint("bench", "tune", COUNTER, "--max-workers", "0")
