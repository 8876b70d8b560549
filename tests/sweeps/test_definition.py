"""Definitions: packaged spaces that can be searched, and files that mean the same wherever they are read."""

import json
from pathlib import Path

import pytest

from hotloop import list_envs
from hotloop.config.loader import PACKAGED
from hotloop.sweeps.definition import Definition, define

ENVS = sorted(path.stem for path in (PACKAGED / "sweeps").glob("*.yaml"))


@pytest.mark.parametrize("env", ENVS)
def test_packaged_spaces_are_of_envs_and_have_few_points_that_cannot_run(env: str) -> None:
    assert env in [entry.name for entry in list_envs()]
    notes: list[str] = []
    definition = define(env, note=notes.append)
    assert definition.base.train.steps is not None
    assert not any("cannot run" in note for note in notes)


@pytest.mark.parametrize(("env", "key"), [("taxi", "tabular.learning_rate"), ("catch", "ppo.learning_rate")])
def test_other_envs_have_a_general_space(env: str, key: str) -> None:
    fixed = {"train.algorithm": "q-learning"} if env == "taxi" else {}
    assert key in define(env, entries=fixed).entries


def test_a_stored_definition_is_the_same_sweep() -> None:
    definition = define("cartpole", options={"sampler": "random"})
    again = Definition.from_json(json.loads(json.dumps(definition.to_json())))
    assert again.fingerprint == definition.fingerprint
    assert again.config({"ppo.epochs": 3}, 7) == definition.config({"ppo.epochs": 3}, 7)
    other = define("cartpole", options={"sampler": "random", "seed": 1})
    assert other.fingerprint != definition.fingerprint


def test_a_condition_in_braces_keeps_its_whole_distribution(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(
        "env: recall\nspace:\n  policy.memory: choice(lstm, gru)\n"
        "  ppo.sequence_length: {if: {policy.memory: [lstm]}, is: choice(16, 32, 64)}\n"
    )
    definition = define(file=file, options={"sampler": "random"})
    assert len(definition.space.grid(1)) == 4


def test_a_minibatch_that_nobody_set_is_fitted_to_the_rollout() -> None:
    definition = define("cartpole", entries={"runner.num_envs": "choice(2, 32)"}, options={"sampler": "random"})
    assert definition.config({"runner.num_envs": 2}, 0).ppo.minibatch_size == 128


def test_trials_are_as_long_as_the_packaged_ones_unless_told() -> None:
    space = {"ppo.epochs": "int(1, 2)"}
    notes: list[str] = []
    assert define("cartpole", entries=space, note=notes.append).base.train.steps == 100_000
    assert "train.steps: 100000 (packaged)" in notes
    assert define("cartpole", entries={**space, "train.steps": 5000}).base.train.steps == 5000
    # Until a goal is reached, a run's own limit holds.
    assert define("cartpole", entries=space, options={"objective": "steps"}).base.train.steps == 2_000_000
