"""The configs in the package fit their envs, say how they were measured, and go with every preset."""

from pathlib import Path

import pytest

import hotloop
from hotloop.config import load_config, packaged_names, presets
from hotloop.config.loader import PACKAGED
from hotloop.training.settings import settle

NAMES = [env.name for env in hotloop.list_envs()]


def test_every_env_has_a_config_and_every_config_an_env() -> None:
    assert packaged_names() == sorted(NAMES)


@pytest.mark.parametrize("env", NAMES)
def test_a_config_says_by_which_command_it_was_measured(env: str) -> None:
    comment = []
    for line in (PACKAGED / f"{env}.yaml").read_text().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line)
    assert f"hotloop train {env} --seed 0" in comment[-1]


@pytest.mark.parametrize("env", NAMES)
def test_a_config_ends_by_itself(env: str) -> None:
    assert load_config(env).train.steps is not None


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("env", NAMES)
def test_a_preset_goes_with_every_env(env: str, preset: str) -> None:
    assert load_config(env, preset=preset).env.name == env


def test_an_env_without_a_config_of_its_own_has_its_numbers_normalised_unless_said_otherwise() -> None:
    given = {"ppo.normalize_rewards": False}
    chosen = [settle(load_config("gymnasium:CartPole-v1", overrides=each), str).ppo for each in ({}, given)]
    assert [(ppo.normalize_observations, ppo.normalize_rewards) for ppo in chosen] == [(True, True), (True, False)]
    assert not settle(load_config("cartpole"), str).ppo.normalize_rewards


def test_presets_grow_from_lock_step_to_very_many_envs() -> None:
    configs = [load_config("cartpole", preset=preset) for preset in ("baseline", "fast", "ultra-fast")]
    counts = [config.runner.num_envs for config in configs]
    assert counts == sorted(counts)
    assert configs[0].runner.num_threads == 1
    assert configs[-1].ppo.epochs == 1


def test_self_play_has_a_target_that_can_be_reached_and_an_algorithm_that_reaches_it() -> None:
    config = load_config("tictactoe", overrides={"env.opponent": "self"})
    assert (config.train.algorithm, config.train.until) == ("q-learning", 0)
    network = load_config("tictactoe", overrides={"env.opponent": "self", "train.algorithm": "ppo"})
    assert (network.train.algorithm, network.train.until) == ("ppo", None)
    assert network.train.evaluate_env == {"opponent": "perfect"}
    assert config.train.evaluate_env == {}
    assert network.ppo == load_config("tictactoe").ppo
    against = load_config("tictactoe", overrides={"env.opponent": "random"})
    assert (against.train.algorithm, against.train.until) == ("ppo", 0.92)


def test_self_play_never_loses_with_its_packaged_config(tmp_path: Path) -> None:
    run = hotloop.train("tictactoe", seed=0, config={"env.opponent": "self"}, home=tmp_path)
    assert run.solved
    assert run.evaluation is not None
    # Worked out against a perfect opponent, over all games.
    assert run.evaluation.exact
    assert (run.evaluation.mean, run.evaluation.metrics["worst_reward"]) == (0.0, 0.0)


@pytest.mark.parametrize("path", sorted(PACKAGED.rglob("variants/*.yaml")), ids=lambda path: path.stem)
def test_a_variant_belongs_to_an_env_and_one_of_its_options(path: Path) -> None:
    env, _, rest = path.stem.partition(".")
    option, _, value = rest.partition("=")
    assert env in NAMES
    config = load_config(env, overrides={f"env.{option}": value})
    assert config.env.options == {option: value}
