"""Evaluation: which episodes count, and how they are summarised."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotloop.config import Config, ConfigError, load_config
from hotloop.envs.spec import native_spec
from hotloop.policies.evaluation import Evaluation
from hotloop.policies.protocol import ActRequest
from hotloop.training.evaluation import check_fit, evaluate, evaluate_on
from hotloop.training.sources import make_runner

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

    def act(self, request: ActRequest) -> Any:
        return np.zeros(len(np.asarray(request.obs)), np.int64), None, None


def evaluate_config(config: Config, *, episodes: int, progress: Any = None) -> Evaluation:
    count = min(config.runner.num_envs, episodes)
    with make_runner(config, count) as runner:
        return evaluate_on(Still(), runner, episodes=episodes, seed=0, progress=progress)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "vectors.py").write_text(ENVS)
    monkeypatch.syspath_prepend(str(tmp_path))

    def of(lasts: list[int]) -> Config:
        changes = {"env.lasts": lasts, "runner.num_envs": 1, "runner.num_workers": 0}
        return load_config("vectors:Vector", overrides=changes)

    return of


def test_rows_that_end_apart_count_equally_often(config: Any) -> None:
    found = evaluate_config(config([2, 3, 7]), episodes=6)
    assert (found.episodes, found.mean, found.length_mean) == (6, 4.0, 4.0)


def test_an_episode_that_never_ends_counts_as_it_stands(config: Any) -> None:
    found = evaluate_config(config([5, 5, -1]), episodes=3)
    assert found.episodes == 3
    assert found.mean == pytest.approx((5 + 5 + 10_000) / 3)


def test_seats_that_nobody_takes_have_no_episodes(config: Any) -> None:
    found = evaluate_config(config([4, 0, 6]), episodes=4)
    assert (found.episodes, found.mean) == (4, 5.0)


def test_an_env_with_other_spaces_than_the_policy_knows_is_refused(config: Any) -> None:
    made = config([2, 2, 2])
    with (
        make_runner(made, 1) as runner,
        pytest.raises(ConfigError, match="the policy does not fit vectors:Vector with these options"),
    ):
        check_fit(native_spec("cartpole"), runner.env_spec, made.env.name)


def two() -> Config:
    return load_config("tests.training.opponent_env:Two", overrides={"runner.num_envs": 1, "runner.num_workers": 0})


def test_an_episode_of_several_agents_counts_once() -> None:
    found = evaluate_config(two(), episodes=3)
    assert (found.episodes, found.mean, found.std, found.length_mean) == (3, 12.5, 0.0, 5.0)
    native = evaluate(Still(), "tag", {"seats": 3, "max_steps": 6}, episodes=5, seed=0)
    assert (native.episodes, native.length_mean) == (5, 6.0)


def test_the_longest_episode_limits_no_sequence_of_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotloop.training.evaluation.LONGEST", 7)
    found = evaluate_config(two(), episodes=4)  # 20 steps of one env, 5 each
    assert (found.episodes, found.mean, found.length_max) == (4, 12.5, 5.0)
    monkeypatch.setattr("hotloop.training.evaluation.LONGEST", 3)
    found = evaluate_config(two(), episodes=4)
    assert (found.episodes, found.length_max) == (1, 3.0)


def test_progress_is_counted_in_episodes() -> None:
    reports: list[tuple[int, int]] = []
    evaluate_config(two(), episodes=3, progress=lambda *progress: reports.append(progress))
    assert list(dict.fromkeys(reports)) == [(0, 3), (1, 3), (2, 3), (3, 3)]
    # After every step of the 15, so that long episodes do not look like a standstill.
    assert len(reports) == 16
    reports.clear()
    evaluate(Still(), "cartpole", {}, episodes=1500, seed=0, progress=lambda *progress: reports.append(progress))
    assert reports == sorted(reports)
    assert reports[-1] == (1500, 1500)
