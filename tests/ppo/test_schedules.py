"""Schedules: what an iteration's settings are depends on its index alone."""

import pytest

from hotloop.config import load_config
from hotloop.ppo.schedules import STAGES, Schedules


def settings(iterations: int, **changes: str) -> Schedules:
    overrides = {
        "runner.num_envs": 8,
        "ppo.horizon": 16,
        "ppo.minibatch_size": 64,
        "ppo.learning_rate": 1.0,
        "ppo.entropy": 0.5,
        "train.steps": iterations * 128,
        **{f"ppo.{key}": value for key, value in changes.items()},
    }
    return Schedules(load_config("cartpole", overrides=overrides), rows=8)


def test_constant_settings_never_change() -> None:
    constant = settings(100)
    assert constant.next_change(7) is None
    assert {**constant.at(0), "iteration": 0} == {**constant.at(99), "iteration": 0}


@pytest.mark.parametrize("iterations", [1, 7, STAGES, 10 * STAGES + 3])
def test_a_linear_schedule_falls_in_equal_stages_and_stays_above_zero(iterations: int) -> None:
    linear = settings(iterations, learning_rate_schedule="linear")
    rates = [linear.at(i)["learning_rate"] for i in range(iterations)]
    assert rates[0] == 1.0
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] <= 1 / iterations + 2 / STAGES
    assert linear.at(iterations + 50)["learning_rate"] == rates[-1]
    assert linear.at(0)["entropy"] == linear.at(iterations)["entropy"] == 0.5
    at = 0
    while at < iterations:
        change = linear.next_change(at)
        assert change is not None
        assert len({linear.at(i)["learning_rate"] for i in range(at, min(change, iterations))}) == 1
        at = change


def test_a_rollback_halves_the_learning_rate_only() -> None:
    linear = settings(100, learning_rate_schedule="linear", entropy_schedule="linear")
    assert linear.at(50, 0.25)["learning_rate"] == 0.25 * linear.at(50)["learning_rate"]
    assert linear.at(50, 0.25)["entropy"] == linear.at(50)["entropy"]
