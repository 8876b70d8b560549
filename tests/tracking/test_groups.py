"""Groups of seeds, and the labels of runs that differ."""

import json
from pathlib import Path
from typing import Any

from hotloop.tracking.groups import find_differences, group_seeds, label_groups
from hotloop.tracking.store import StoredRun


def run(name: str, seed: int, weights: str | None = None, **ppo: Any) -> StoredRun:
    config = {"env": {"name": "cartpole"}, "train": {"seed": seed}, "ppo": {"epochs": 4, **ppo}}
    facts = {"initial_weights": weights}
    return StoredRun(
        number=1,
        id=name,
        name=name,
        path=Path("/"),
        host="",
        process=1,
        env="cartpole",
        seed=seed,
        status="completed",
        ended=None,
        created=0.0,
        seen=0.0,
        seconds=0.0,
        steps=0,
        iterations=0,
        episodes=0,
        return_recent=None,
        best=None,
        config_text=json.dumps(config),
        facts_text=json.dumps(facts),
    )


def names(groups: list[list[StoredRun]]) -> list[list[str]]:
    return [[one.name for one in members] for members in groups]


def test_a_seed_is_pooled_once() -> None:
    runs = [run("a", 0), run("b", 1), run("again", 0), run("c", 2), run("third", 0)]
    assert names(group_seeds(runs)) == [["a", "b", "c"], ["again"], ["third"]]


def test_runs_that_began_with_other_weights_are_not_pooled() -> None:
    runs = [run("a", 0), run("b", 1), run("tuned", 2, "abc"), run("tuned-2", 3, "abc"), run("other", 4, "def")]
    assert names(group_seeds(runs)) == [["a", "b"], ["tuned", "tuned-2"], ["other"]]
    assert find_differences([runs[0], runs[2]]) == [{"initial_weights": None}, {"initial_weights": "abc"}]


def test_labels_name_the_settings_that_differ() -> None:
    groups = group_seeds([run("a", 0), run("b", 1), run("c", 0, epochs=8)])
    assert label_groups(groups) == ["cartpole, ppo.epochs=4, 2 seeds", "c (ppo.epochs=8)"]
    assert label_groups([[run("a", 0)], [run("b", 1)]]) == ["a", "b"]
    many = label_groups([[run("a", 0, u=1, v=1, w=1, x=1)], [run("b", 0, u=2, v=2, w=2, x=2)]])
    assert many[0] == "a (ppo.u=1, ppo.v=1, ppo.w=1, ...)"
