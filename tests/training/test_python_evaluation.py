"""Evaluation on Python envs: which episodes count."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotloop.config import Config, ConfigError, load_config
from hotloop.envs.spec import native_spec
from hotloop.training.python_evaluation import evaluate_python

ENVS = """
import numpy as np
from gymnasium import spaces


class Vector:
    num_agents = 3
    single_observation_space = spaces.Box(0, 1, (1,))
    single_action_space = spaces.Discrete(2)

    def __init__(self, lasts):
        self.lasts = np.array(lasts)
        self.masks = self.lasts != 0

    def reset(self, seed=0):
        self.steps = np.zeros(3, int)
        return np.zeros((3, 1), np.float32), []

    def step(self, actions):
        self.steps += 1
        ends = self.steps == self.lasts
        self.steps[ends] = 0
        return np.zeros((3, 1), np.float32), np.ones(3), ends, np.zeros(3, bool), []

    def close(self):
        pass
"""


class Still:
    """A policy that always decides on 0."""

    memory_len = 0

    def act(self, obs: Any, mask: Any = None, **_: Any) -> Any:
        return np.zeros(len(obs), np.int64), None, None


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "vectors.py").write_text(ENVS)
    monkeypatch.syspath_prepend(str(tmp_path))

    def of(lasts: list[int]) -> Config:
        changes = {"env.lasts": lasts, "runner.num_envs": 1, "runner.num_workers": 0}
        return load_config("vectors:Vector", overrides=changes)

    return of


def test_rows_that_end_apart_count_equally_often(config: Any) -> None:
    found = evaluate_python(Still(), config([2, 3, 7]), episodes=6, seed=0)
    assert (found.episodes, found.mean, found.length_mean) == (6, 4.0, 4.0)


def test_an_episode_that_never_ends_counts_as_it_stands(config: Any) -> None:
    found = evaluate_python(Still(), config([5, 5, -1]), episodes=3, seed=0)
    assert found.episodes == 3
    assert found.mean == pytest.approx((5 + 5 + 10_000) / 3)


def test_seats_that_nobody_takes_have_no_episodes(config: Any) -> None:
    found = evaluate_python(Still(), config([4, 0, 6]), episodes=4, seed=0)
    assert (found.episodes, found.mean) == (4, 5.0)


def test_an_env_with_other_spaces_than_the_policy_knows_is_refused(config: Any) -> None:
    known = native_spec("cartpole")
    with pytest.raises(ConfigError, match="the policy does not fit vectors:Vector with these options"):
        evaluate_python(Still(), config([2, 2, 2]), episodes=1, seed=0, known=known)
