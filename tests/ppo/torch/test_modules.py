"""Modules and loss terms of users: their arguments, and errors about those that do not fit."""

from typing import Any

import numpy as np
import pytest

from hotloop.config import ConfigError
from tests.ppo.reference import values_of
from tests.ppo.torch.learners import pool_of, torch_learner
from tests.ppo.torch.test_parity import FULL

HERE = "tests.ppo.torch.policies"


def module(name: str, **options: Any) -> dict[str, Any]:
    return {"module": f"{HERE}:{name}", "module_options": options}


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("WrongOutputs", r"outputs for 3 rows has shape \[3, 1\] of float32: expected \[3, 2\]"),
        ("WrongValue", r"value for 3 rows has shape \[3, 1\] of float32: expected \[3\]"),
        ("Forgetful", r"memory for 3 rows has shape \[3, 0\] of float32: expected \[3, 1\]"),
        ("OneMethod", "no method 'initial_memory'"),
        ("Missing", "has no 'Missing'"),
    ],
)
def test_a_module_that_does_not_fit_is_named_before_training(name: str, result: str) -> None:
    with pytest.raises(ConfigError, match=result):
        torch_learner("cartpole", {}, module(name), 2, 4)


def test_an_argument_that_a_module_does_not_take_is_named() -> None:
    with pytest.raises(ConfigError, match="width"):
        torch_learner("cartpole", {}, module("Counting", width=3), 2, 4)


def test_a_name_that_leads_nowhere_is_named() -> None:
    for name, result in (("nowhere.at.all:X", "no module 'nowhere'"), ("nowhere", "package.module:name")):
        with pytest.raises(ConfigError, match=result):
            torch_learner("cartpole", {}, {"module": name, "module_options": {}}, 2, 4)


def test_a_modules_memory_counts_the_steps_of_each_episode() -> None:
    learner = torch_learner("cartpole", {"max_steps": 5}, module("Counting", first=3.0), 4, 12, sequence_length=4)
    learner.collect(pool_of("cartpole", {"max_steps": 5}, 4), FULL)
    rollout = learner.rollout()
    # No episode of cartpole ends before five steps: at steps 0, 4 and 8 each row is at step 0, 4 and 3 of an episode.
    np.testing.assert_array_equal(rollout["memory"][..., 0], [[3.0] * 4, [7.0] * 4, [6.0] * 4])
    _, result = learner.gradient(FULL)
    assert abs(result["kl"]) < 1e-7


def test_weights_of_a_module_come_from_the_seed() -> None:
    first, again, other = (torch_learner("cartpole", {}, module("Counting"), 1, 1, seed=seed) for seed in (1, 1, 2))
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])
    assert any((array != other.arrays()[name]).any() for name, array in first.arrays().items())


def test_a_further_loss_term_is_learned_from() -> None:
    plain, pulled = (
        torch_learner("cartpole", {}, {"hidden": [8]}, 8, 16, config={"losses": losses})
        for losses in ([], [f"{HERE}:pull_values"])
    )
    settings = {**FULL, "learning_rate": 0.02, "epochs": 4, "minibatch_size": 32}
    for learner in (plain, pulled):
        learner.iterate(pool_of("cartpole", {}, 8), settings, 20, 1e9)
    obs = plain.rollout()["obs"][0]
    assert np.abs(values_of(pulled, obs) - 7.0).max() < 1.0
    assert np.abs(values_of(plain, obs) - 7.0).max() > 1.0
