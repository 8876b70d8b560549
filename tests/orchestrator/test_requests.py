"""Requests for jobs: which work is the same, and which results are exact."""

from pathlib import Path

import pytest

from hotloop.config import load_config
from hotloop.errors import JobError
from hotloop.orchestrator.requests import command_request, is_exact, train_request
from hotloop.training import train

SHORT = {"train.steps": 4096, "train.until": None, "train.evaluate_episodes": 0}


def key(home: Path, env: str = "cartpole", **overrides: object) -> str:
    changed = {name.replace("__", "."): value for name, value in overrides.items()}
    return train_request(load_config(env, overrides={**SHORT, **changed}), home=home).key


def test_threads_and_trackers_do_not_make_another_job_but_settings_and_seed_do(tmp_path: Path) -> None:
    assert key(tmp_path) == key(tmp_path, runner__num_threads=1) == key(tmp_path, track__trackers=["tensorboard"])
    assert len({key(tmp_path), key(tmp_path, train__seed=1), key(tmp_path, ppo__epochs=3)}) == 3


def test_jobs_that_differ_in_their_seed_have_the_same_shape(tmp_path: Path) -> None:
    first, second = (
        train_request(load_config("cartpole", overrides={**SHORT, "train.seed": seed}), home=tmp_path)
        for seed in (0, 1)
    )
    assert first.shape == second.shape
    assert first.key != second.key


def test_initial_weights_are_part_of_the_key(tmp_path: Path) -> None:
    config = load_config("cartpole", overrides=SHORT)
    runs = [
        train("cartpole", config={**SHORT, "train.seed": seed}, progress=False, home=tmp_path, store="none", name=name)
        for seed, name in ((0, "a"), (0, "b"), (1, "c"))
    ]
    a, b, c = (train_request(config, home=tmp_path, init_from=run.path).key for run in runs)
    assert a == b, "equal weights of another run are the same"
    assert len({a, c, train_request(config, home=tmp_path).key}) == 3


@pytest.mark.parametrize(
    ("env", "changes", "exact"),
    [
        ("cartpole", {}, True),
        ("cartpole", {"train.minutes": 1.0}, False),
        ("cartpole", {"train.learner": "torch"}, False),
        ("tictactoe", {"train.algorithm": "q-learning"}, False),
        ("gymnasium:CartPole-v1", {}, False),
    ],
)
def test_exact_are_native_envs_and_learners_without_a_limit_of_time(
    env: str, changes: dict[str, object], exact: bool
) -> None:
    assert is_exact(load_config(env, overrides={**SHORT, **changes})) is exact


def test_commands_are_trusted_by_their_whole_text_and_unknown_kinds_refused() -> None:
    request = command_request("eval", ["last", "--episodes", "5"])
    assert (request.code, request.exact) == (["eval last --episodes 5"], False)
    for kind in ("train", "serve"):
        with pytest.raises(JobError, match="cannot be queued"):
            command_request(kind, [])
