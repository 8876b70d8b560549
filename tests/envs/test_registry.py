"""The list of native envs, and what is said to a name that is not in it."""

import dataclasses

import pytest

import hotloop
from hotloop.envs.registry import EnvEntry


def entry(name: str) -> EnvEntry:
    return next(env for env in hotloop.list_envs() if env.name == name)


def test_lists_every_env_with_its_spaces() -> None:
    names = [env.name for env in hotloop.list_envs()]
    assert len(names) == len(set(names))
    assert {"cartpole", "mountain-car", "acrobot", "pendulum", "frozen-lake", "cliff-walking"} <= set(names)
    assert {"taxi", "tictactoe", "recall", "tag"} <= set(names)
    cartpole = entry("cartpole")
    assert (cartpole.observation, cartpole.action, cartpole.seats) == ("Box(4, float32)", "Discrete(2)", 1)
    assert cartpole.gymnasium_id == "hotloop/CartPole-v1"
    assert cartpole.state == ("x", "x_dot", "theta", "theta_dot")
    assert all(env.about and "\n" not in env.about for env in hotloop.list_envs())


def test_says_what_options_take() -> None:
    options = {option.name: option for option in entry("tag").options}
    assert (options["seats"].default, options["seats"].low, options["seats"].high) == (4, 2, 8)
    assert options["seats"].fixed
    assert options["observation"].choices == ("vector", "grid")
    assert all("max_steps" in {option.name for option in env.options} for env in hotloop.list_envs())


def test_entries_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry("cartpole").name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cartpol", "Did you mean 'cartpole'"),
        ("CartPole-v1", "Did you mean 'cartpole'"),
        ("hotloop/CartPole-v1", "Did you mean 'cartpole'"),
        ("frozen_lake", "Did you mean 'frozen-lake'"),
        ("zzz", "There are: cartpole, "),
    ],
)
def test_unknown_name_gets_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"no native env '{name}'.*{hint}"):
        hotloop.make_vec(name)
