"""Exact answers: what value iteration finds, and what a table's policy earns."""

import math
from pathlib import Path

import numpy as np
import pytest

import hotloop
from hotloop import _core
from hotloop.tabular.evaluation import Truth, evaluate_exactly, exact_options
from tests.cli.command import hotloop as command
from tests.cli.command import hotloop_json


def best_table(env: str, gamma: float) -> _core.QTable:
    truth = Truth.of(env, {}, gamma)
    values = np.where(np.isfinite(truth.values), truth.values, 0).astype(np.float32)
    return _core.QTable(len(values), values.shape[1], 0.0, {"values": values.reshape(-1)})


@pytest.mark.parametrize(
    ("env", "gamma", "best"),
    [
        ("tictactoe", 0.99, 0.95983),
        ("cliff-walking", 1.0, -13.0),
        ("frozen-lake", 1.0, 0.74016),
        ("taxi", 1.0, 7.93),
    ],
)
def test_the_best_policy_earns_what_is_known_to_be_the_most(env: str, gamma: float, best: float) -> None:
    found = evaluate_exactly(best_table(env, gamma), env, {}, gamma)
    assert found.exact
    assert found.mean == pytest.approx(best, abs=1e-5)
    assert found.metrics["optimal_states"] == 1.0


def test_tictactoe_has_4520_boards_at_the_learners_turn() -> None:
    assert _core.reachable_states("tictactoe").sum() == 4520


def test_the_discounted_optimum_of_tictactoe_is_that_of_its_start() -> None:
    truth = Truth.of("tictactoe", {}, 0.99)
    result = _core.transitions("tictactoe")
    assert result is not None
    best = np.where(truth.reachable, truth.values.max(axis=1), 0)
    assert result["start"] @ best == pytest.approx(0.93918, abs=1e-5)


def test_exact_and_sampled_evaluations_agree() -> None:
    from hotloop.tabular.player import TablePlayer
    from hotloop.training.evaluation import evaluate

    table = best_table("tictactoe", 0.5)
    exact = evaluate_exactly(table, "tictactoe", {}, 0.5)
    played = evaluate(TablePlayer(table), "tictactoe", {}, episodes=4000, seed=1)
    assert played.low - 0.01 < exact.mean < played.high + 0.01
    assert played.length_mean == pytest.approx(exact.length_mean, abs=0.05)


def test_a_policy_that_never_ends_counts_up_to_the_limit_of_its_env() -> None:
    # Up for ever: every step costs one until the episode is cut.
    values = np.zeros((48, 4), np.float32)
    values[:, 0] = 1
    table = _core.QTable(48, 4, 0.0, {"values": values.reshape(-1)})
    found = evaluate_exactly(table, "cliff-walking", {"max_steps": 50}, 0.9)
    assert (found.mean, found.length_mean) == (-50.0, 50.0)


def test_what_cannot_be_enumerated_is_played_instead() -> None:
    assert exact_options("taxi", {"fickle": True}) is None
    assert exact_options("gymnasium:Taxi-v3", {}) is None
    assert exact_options("tictactoe", {"opponent": "self"}) == {"opponent": "perfect"}
    with pytest.raises(ValueError, match="cannot be enumerated"):
        _core.optimal_values("cartpole", None, 0.9)


def test_earnings_want_an_action_for_every_state() -> None:
    with pytest.raises(ValueError, match="expected one of 4 actions for each of 16 states"):
        _core.evaluate_policy("frozen-lake", None, np.zeros(3, np.uint32), 10)
    assert math.isnan(evaluate_exactly(best_table("taxi", 0.9), "taxi", {}, 0.9).std)


def test_eval_works_out_what_a_table_earns_unless_episodes_are_asked_for(tmp_path: Path) -> None:
    run = str(hotloop.train("frozen-lake", config={"train.algorithm": "q-learning"}, home=tmp_path).path)
    (exact,) = hotloop_json("eval", run, "--no-keep")
    assert (exact["exact"], exact["episodes"]) == (True, 0)
    assert exact["low"] == exact["mean"] == exact["high"] > 0.73
    assert 0 < exact["metrics"]["optimal_states"] <= 1
    (played,) = hotloop_json("eval", run, "--no-keep", "--episodes", "2000")
    assert (played["exact"], played["episodes"]) == (False, 2000)
    assert played["low"] - 0.02 < exact["mean"] < played["high"] + 0.02
    result = command("eval", run, "--no-keep").stdout
    assert f"expected return {exact['mean']:.5f} exactly" in result
    assert "optimal_states" in result


def test_eval_plays_what_cannot_be_enumerated(tmp_path: Path) -> None:
    config = {"train.algorithm": "q-learning", "env.fickle": True}
    run = hotloop.train("taxi", steps=65536, config=config, home=tmp_path)
    (played,) = hotloop_json("eval", str(run.path), "--no-keep")
    assert (played["exact"], played["episodes"]) == (False, 100)


def test_eval_of_another_opponent_is_exact_too(tmp_path: Path) -> None:
    run = str(hotloop.train("tictactoe", config={"train.algorithm": "q-learning"}, home=tmp_path).path)
    (found,) = hotloop_json("eval", run, "--no-keep", "env.opponent=perfect")
    assert found["exact"]
    assert found["metrics"]["worst_reward"] in (-1, 0)
    assert found["mean"] <= 0
