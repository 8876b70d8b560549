"""Tables keep what they are given, in every kind, and turn into each other."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hotloop
from hotloop import _core
from hotloop.config import load_config
from hotloop.tabular.player import from_arrays, to_arrays
from hotloop.training.tabular_session import TabularSession


@given(st.dictionaries(st.integers(0, 2**64 - 2), st.lists(st.floats(-9, 9, width=32), min_size=3, max_size=3)))
def test_a_sparse_table_finds_every_state_again(rows: dict[int, list[float]]) -> None:
    states = np.array(sorted(rows), np.uint64)
    values = np.array([rows[int(state)] for state in states], np.float32).reshape(-1)
    table = _core.QTable(0, 3, 0.5, {"states": states, "values": values})
    assert table.rows == len(rows)
    for state, row in rows.items():
        assert table.values_of(state).tolist() == np.array(row, np.float32).tolist()
    kept = table.arrays()
    assert (kept["states"] == states).all()
    assert (kept["values"] == values).all()


def test_a_state_that_was_never_seen_has_the_initial_value() -> None:
    table = _core.QTable(0, 2, 0.25, {"states": np.array([7], np.uint64), "values": np.ones(2, np.float32)})
    assert table.values_of(8).tolist() == [0.25, 0.25]
    assert table.rows == 1


def test_kinds_turn_into_each_other() -> None:
    values = np.arange(12, dtype=np.float32) / 8
    dense = _core.QTable(4, 3, 0.0, {"values": values})
    sparse = dense.converted(0, False)
    half = sparse.converted(4, True)
    assert sparse.states == 0
    assert sparse.rows == 4
    assert half.half
    assert half.bytes == dense.bytes / 2
    # Eighths are halves too: nothing was lost on the way.
    assert (half.converted(4, False).arrays()["values"] == values).all()
    with pytest.raises(ValueError, match="expected less than 2"):
        sparse.converted(2, False)


def test_masks_rule_out_actions_and_ties_go_to_the_first() -> None:
    table = _core.QTable(1, 3, 0.0, {"values": np.array([1, 1, 5], np.float32)})
    states = np.zeros(1, np.int64)
    assert table.act(states)[0] == 2
    assert table.act(states, np.array([[1, 1, 0]], np.int8))[0] == 0
    drawn = {int(table.act(states, np.array([[1, 1, 0]], np.int8), seed)[0]) for seed in range(20)}
    assert drawn == {0, 1}


@pytest.mark.parametrize("keys", [{}, {"table": "sparse"}, {"storage": "f16"}, {"table": "sparse", "storage": "f16"}])
def test_a_learned_table_comes_back_from_its_arrays(keys: dict[str, str]) -> None:
    overrides = {"train.algorithm": "double-q-learning", "tabular.iteration": 20_000}
    session = TabularSession(
        load_config("tictactoe", overrides={**overrides, **{f"tabular.{key}": value for key, value in keys.items()}})
    )
    session.advance(1, 1e9)
    table = session.engine.table()
    shape = {"states": table.states, "actions": 9, "initial_value": 0.0}
    again = from_arrays(to_arrays(table), shape)
    assert {name: array.tobytes() for name, array in again.arrays().items()} == {
        name: array.tobytes() for name, array in table.arrays().items()
    }
    if keys.get("table") == "sparse":
        # Of 19 683 ids only boards that came up have a row.
        assert 1000 < table.rows <= 4520


def test_a_run_begins_with_another_kind_of_table(tmp_path: Path) -> None:
    config: dict[str, object] = {"train.algorithm": "q-learning", "train.until": None}
    first = hotloop.train("taxi", steps=300_000, config=config, home=tmp_path)
    config |= {"tabular.table": "sparse", "tabular.storage": "f16", "tabular.iteration": 1}
    second = hotloop.train("taxi", steps=1, config=config, init_from=first.path, home=tmp_path)
    assert second.evaluation is not None
    assert second.evaluation.mean > 7


def test_a_table_on_torch_learns_and_resumes_with_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    config = {
        "train.algorithm": "q-learning",
        "train.until": None,
        "tabular.table": "torch",
        "tabular.device": "cpu",
        "tabular.iteration": 25_600,
        "tabular.learning_rate_schedule": "constant",
        "tabular.learning_rate": 0.1,
        "tabular.learning_rate_floor": 0.0,
        "runner.num_envs": 256,
        "runner.num_threads": 1,
    }
    whole = hotloop.train("frozen-lake", steps=256_000, config=config, home=tmp_path, name="whole")
    assert whole.evaluation is not None
    assert whole.evaluation.mean > 0.6
    part = hotloop.train("frozen-lake", steps=102_400, config=config, home=tmp_path, name="part")
    rest = hotloop.train(resume=part.path, steps=256_000, home=tmp_path)
    kept = [run.path / "checkpoints" / str(run.steps) / "policy.safetensors" for run in (whole, rest)]
    assert kept[0].read_bytes() == kept[1].read_bytes()


@pytest.mark.parametrize("algorithm", ["sarsa", "expected-sarsa", "double-q-learning"])
def test_every_algorithm_learns_on_torch(algorithm: str) -> None:
    pytest.importorskip("torch")
    keys = {"tabular.table": "torch", "tabular.device": "cpu", "tabular.iteration": 51_200, "runner.num_envs": 256}
    session = TabularSession(load_config("cliff-walking", overrides={"train.algorithm": algorithm, **keys}))
    session.advance(4, 1e9)
    assert session.evaluate().mean >= -25


def test_a_gymnasium_env_is_learned_by_the_slower_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hotloop.training import Callback

    class Notes(Callback):
        def start(self, report):  # type: ignore[no-untyped-def]
            print(*report.notes)

    config = {
        "train.algorithm": "q-learning",
        "env.is_slippery": False,
        "tabular.iteration": 2000,
        "tabular.initial_value": 1.0,
        "train.evaluate_episodes": 5,
    }
    env = "gymnasium:FrozenLake-v1"
    run = hotloop.train(env, steps=10_000, config=config, home=tmp_path, callbacks=[Notes()], name="lake")
    assert "stepped in Python, a hundred times slower" in capsys.readouterr().out
    assert run.evaluation is not None
    assert run.evaluation.mean == 1.0
    assert run.episodes > 10
    rest = hotloop.train(resume=run.path, steps=12_000, home=tmp_path)
    assert rest.steps == 12_000
