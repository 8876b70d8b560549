"""Change points: found where they are, ranked by how clear they are."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import hotloop
from hotloop.tracking.change_points import change_points, find_change
from hotloop.tracking.database import Database
from hotloop.tracking.run_comparison import first_difference, probability_above
from hotloop.tracking.store import Store


@given(st.integers(10, 90), st.floats(0.5, 100), st.integers(0, 1000))
def test_a_step_in_noise_is_found_where_it_is(at: int, size: float, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=100) * 0.05 * size
    y = np.where(np.arange(100) < at, 0.0, size) + noise
    found = find_change(np.arange(100.0), y)
    assert found is not None
    assert abs(found[0] - at) <= 1
    assert found[2] > found[1]


def test_nothing_is_found_where_nothing_changes() -> None:
    x = np.arange(100.0)
    assert find_change(x, np.full(100, 3.0)) is None
    assert find_change(x, 2 * x + 1) is None
    assert find_change(x[:4], np.array([0.0, 0.0, 1.0, 1.0])) is None


def test_the_cause_of_a_collapse_comes_before_its_consequences(tmp_path: Path) -> None:
    """Of two metrics that change, the one that changed first explains the other."""
    config = {"train.until": None, "train.evaluate_episodes": 0}
    run = hotloop.train("cartpole", steps=20_000, config=config, home=tmp_path, progress=False)
    with Store(home=tmp_path) as store:
        stored = store.find(run.name)
        with Database(store.url) as database:
            keys = database.key_numbers(["made.cause", "made.effect"])
            rows = [
                (stored.number, keys[name], step, 0.0, float(step >= at) * -10.0 + 0.01 * np.sin(step))
                for name, at in (("made.cause", 500), ("made.effect", 520))
                for step in range(0, 1000, 10)
            ]
            database.insert("metrics", ("run", "key", "step", "time", "value"), rows)
        names = store.metric_names(stored)
        found = change_points(store, stored, names, low=0, high=1000, main="made.effect")
        assert [(change.metric, change.step) for change in found[:2]] == [("made.effect", 520), ("made.cause", 500)]


def test_equal_runs_do_not_differ_and_other_seeds_do_from_the_first_record(tmp_path: Path) -> None:
    names = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        config = {"train.until": None, "train.evaluate_episodes": 0}
        names.append(
            hotloop.train(
                "cartpole", steps=60_000, seed=seed, config=config, home=tmp_path, name=name, progress=False
            ).name
        )
    with Store(home=tmp_path) as store:
        a, b, c = (store.find(name) for name in names)
        assert first_difference(store, a, b).step is None
        found = first_difference(store, a, c)
        assert found.step == store.series(a, "kl").steps[0]
        assert "kl" in [name for name, _, _ in found.metrics]


def test_the_probability_of_being_better_follows_the_distance() -> None:
    low, high = [1.0, 2.0, 1.5, 1.2], [5.0, 6.0, 5.5, 5.2]
    assert probability_above(high, low, seed=0) == 1.0
    assert probability_above(low, high, seed=0) == 0.0
    same = probability_above(low, low, seed=0)
    assert same is not None
    assert 0.4 < same < 0.6
    assert probability_above([1.0], low, seed=0) is None
