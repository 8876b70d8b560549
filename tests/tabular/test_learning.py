"""Every algorithm, table and runtime learns; one thread gives the same bits whatever happens on the way."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.config import load_config
from hotloop.policies.evaluation import Evaluation
from hotloop.training.tabular_session import TabularSession

ALGORITHMS = ("q-learning", "sarsa", "expected-sarsa", "double-q-learning")


def session(env: str = "tictactoe", algorithm: str = "q-learning", steps: int = 10**7, **keys: Any) -> TabularSession:
    tabular = {f"tabular.{key}": value for key, value in keys.items()}
    return TabularSession(load_config(env, overrides={"train.algorithm": algorithm, "train.steps": steps, **tabular}))


def learned(env: str, algorithm: str, iterations: int, **keys: Any) -> Evaluation:
    learner = session(env, algorithm, **keys)
    learner.advance(iterations, 1e9)
    return learner.evaluate()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_finds_the_way_of_the_taxi(algorithm: str) -> None:
    # On-policy algorithms learn the exploring policy, so exploration must end for them.
    found = learned("taxi", algorithm, 64, exploration_schedule="linear", exploration_scale=900_000)
    assert found.mean > 7.9


@pytest.mark.parametrize("env", ["tictactoe", "frozen-lake", "cliff-walking", "taxi"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("initial", [1e30, -1e30])
def test_values_stay_finite_from_the_largest_initial_value(env: str, algorithm: str, initial: float) -> None:
    learner = session(env, algorithm, initial_value=initial, gamma=1.0, learning_rate=1.0, iteration=20_000)
    learner.advance(1, 1e9)
    assert np.isfinite(learner.engine.table().arrays()["values"]).all()
    assert np.isfinite(learner.evaluate().mean)


def test_q_learning_keeps_to_the_edge_and_sarsa_keeps_away_from_it() -> None:
    assert learned("cliff-walking", "q-learning", 32).mean == -13
    assert -19 <= learned("cliff-walking", "sarsa", 32, learning_rate=0.1).mean < -13


@pytest.mark.parametrize(
    "keys",
    [
        {"table": "sparse"},
        {"storage": "f16"},
        {"table": "sparse", "storage": "f16"},
        {"batch_size": 16},
        {"replay_size": 1000, "replay_updates": 2},
        {"runtime": "shared"},
        {"runtime": "private"},
        {"runtime": "shared", "table": "sparse"},
        {"runtime": "private", "table": "sparse"},
        {"learning_rate_schedule": "exponential", "learning_rate_scale": 1e5, "learning_rate_floor": 0.005},
        {"exploration_schedule": "visits", "exploration_scale": 1e4, "exploration_floor": 0.05},
    ],
    ids=str,
)
def test_every_table_and_runtime_solves_frozen_lake(keys: dict[str, Any]) -> None:
    found = learned("frozen-lake", "q-learning", 16, **keys)
    assert found.mean > 0.73


def test_tictactoe_is_played_optimally_against_a_random_opponent() -> None:
    found = learned("tictactoe", "q-learning", 16)
    assert found.mean >= 0.9598
    assert found.metrics["optimal_states"] >= 0.95


def test_self_play_never_loses_against_a_perfect_opponent(tmp_path: Path) -> None:
    run = hotloop.train(
        "tictactoe",
        steps=12 * 2**20,
        config={"train.algorithm": "q-learning", "env.opponent": "self", "train.until": None},
        home=tmp_path,
    )
    assert run.evaluation is not None
    assert run.evaluation.exact
    # Every outcome that can come up when the table meets perfect play, on either side, is a draw.
    assert run.evaluation.mean == 0
    assert run.evaluation.metrics["worst_reward"] == 0


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"table": "sparse", "replay_size": 500, "batch_size": 7},
        {"storage": "f16", "learning_rate_schedule": "exponential", "learning_rate_scale": 1e5},
    ],
    ids=str,
)
@pytest.mark.parametrize("algorithm", ["q-learning", "double-q-learning"])
def test_one_thread_goes_on_from_a_checkpoint_with_the_same_bits(
    tmp_path: Path, algorithm: str, keys: dict[str, Any]
) -> None:
    config = {"train.algorithm": algorithm, "train.until": None, "tabular.iteration": 5000}
    config |= {f"tabular.{key}": value for key, value in keys.items()}
    whole = hotloop.train("tictactoe", steps=40_000, config=config, home=tmp_path, name="whole")
    part = hotloop.train("tictactoe", steps=15_000, config=config, home=tmp_path, name="part")
    rest = hotloop.train(resume=part.path, steps=40_000, home=tmp_path)
    assert rest.steps == whole.steps == 40_000
    policies = [run.path / "checkpoints" / "40000" / "policy.safetensors" for run in (whole, rest)]
    assert policies[0].read_bytes() == policies[1].read_bytes()


def test_instruction_sets_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for isa in ("scalar", "avx2", "avx512"):
        monkeypatch.setenv("HOTLOOP_ISA", isa)
        try:
            learner = session(algorithm="expected-sarsa", iteration=50_000)
        except ValueError:
            continue
        learner.advance(2, 1e9)
        tables.append(learner.policy_bytes())
    assert len(tables) > 1
    assert all(table == tables[0] for table in tables)


def test_the_clock_does_not_show_in_a_table() -> None:
    once, twice = session(iteration=10_000), session(iteration=10_000)
    once.advance(4, 1e9)
    for _ in range(4):
        twice.advance(1, 0.0)
    assert once.policy_bytes() == twice.policy_bytes()


def test_private_tables_are_equal_after_each_merge() -> None:
    learner = session(runtime="private", iteration=20_000)
    learner.advance(3, 1e9)
    first = learner.policy_bytes()
    assert first == learner.policy_bytes()
    assert learner.evaluate().mean > 0.6


def test_a_learned_table_acts(tmp_path: Path) -> None:
    run = hotloop.train("tictactoe", config={"train.algorithm": "q-learning"}, home=tmp_path)
    agent = hotloop.load(run.path)
    # Two in a row and a free third cell: the learner, second to move, wins.
    board = np.array([2, 2, 0, 1, 1, 0, 1, 0, 0])
    state = int((board * 3 ** np.arange(8, -1, -1)).sum())
    assert agent.act(state, mask=board == 0) == 2
    assert agent.act(np.array([state, state]), mask=np.stack([board == 0] * 2)).tolist() == [2, 2]


def test_a_run_is_verified_bit_by_bit(tmp_path: Path) -> None:
    from hotloop.training import verify

    run = hotloop.train("frozen-lake", steps=200_000, config={"train.algorithm": "sarsa"}, home=tmp_path)
    assert verify(run.path, home=tmp_path).same
