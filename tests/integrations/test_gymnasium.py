"""One native env as a `gymnasium.Env`."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import hotloop
from hotloop.integrations.gymnasium import NativeEnv
from tests.trajectories import ONE_SEAT, Variant, label

ONE_SEAT_IDS = [env.gymnasium_id for env in hotloop.list_envs() if env.seats == 1]
# Advice about spaces that Gymnasium's own versions of these envs have too, and about rendering.
EXPECTED_ADVICE = (
    "A Box observation space m",
    "For Box action spaces",
    "No render modes",
    "Not able to test alternative render modes",
)


@pytest.mark.parametrize("id", ONE_SEAT_IDS)
def test_passes_gymnasiums_checker(id: str) -> None:
    env = gymnasium.make(id, disable_env_checker=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env.unwrapped)
    advice = [str(warning.message) for warning in caught]
    assert [text for text in advice if not any(known in text for known in EXPECTED_ADVICE)] == []


@pytest.mark.parametrize("variant", ONE_SEAT, ids=label)
def test_plays_through_gymnasiums_own_checks(variant: Variant) -> None:
    name, options = variant
    id = next(env.gymnasium_id for env in hotloop.list_envs() if env.name == name)
    env = gymnasium.make(id, **options)  # with PassiveEnvChecker and OrderEnforcing
    obs, info = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(300):
        action = env.action_space.sample(info["action_mask"]) if "action_mask" in info else env.action_space.sample()
        obs, reward, terminated, truncated, info = env.step(action)
        assert obs in env.observation_space
        assert type(reward) is float
        assert type(terminated) is type(truncated) is bool
        if terminated or truncated:
            obs, info = env.reset()
    env.close()
    env.close()


def test_keywords_are_options_of_the_env() -> None:
    env = gymnasium.make("hotloop/FrozenLake-v1", slippery=False, map="SG")
    env.reset(seed=0)
    assert env.step(2) == (1, 1.0, True, False, {"prob": 1.0})


def test_options_of_reset_hold_from_then_on() -> None:
    env = gymnasium.make("hotloop/CartPole-v1")
    env.reset(seed=0, options={"max_steps": 2})
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    env.reset()
    assert [env.step(0)[3] for _ in range(2)] == [False, True]


def test_seed_makes_it_repeat_and_none_goes_on() -> None:
    env = NativeEnv("cartpole")
    first = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    again = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    assert np.array_equal(first, again)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(NativeEnv("cartpole").reset()[0], NativeEnv("cartpole").reset()[0])


def test_masks_and_infos_are_returned() -> None:
    obs, info = NativeEnv("taxi").reset(seed=0)
    assert type(obs) is int
    assert info["action_mask"].dtype == np.int8
    assert info["action_mask"].shape == (6,)
    assert info["prob"] == 1.0


@pytest.mark.parametrize("name", ["taxi", "tictactoe"])
def test_random_actions_of_masked_envs_are_legal(name: str) -> None:
    env = NativeEnv(name)
    _, info = env.reset(seed=0)
    for _ in range(300):
        action = env.action_space.sample()
        assert info["action_mask"][action] == 1
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
    assert all(action in env.action_space for action in range(6))


def test_several_seats_are_sent_to_make_vec() -> None:
    with pytest.raises(ValueError, match=r"tag has 4 seats.*use gymnasium\.make_vec or hotloop\.make_vec"):
        gymnasium.make("hotloop/Tag-v0")
    with pytest.raises(ValueError, match="tictactoe has 2 seats"):
        gymnasium.make("hotloop/TicTacToe-v0", opponent="self")


@pytest.mark.parametrize(
    ("name", "action", "message"),
    [
        ("cartpole", 2, "the action of row 0 is 2: expected 0 to 1"),
        ("cartpole", -1, "the action of row 0 is -1: expected 0 to 1"),
        ("cartpole", 0.5, "cannot be interpreted as an integer"),
        ("pendulum", [np.nan], "the action of row 0 is NaN: expected a finite number"),
        ("pendulum", [0.0, 1.0], r"shape \[1, 2\]: expected \[1, 1\]"),
    ],
)
def test_bad_actions_raise_and_cost_nothing(name: str, action: Any, message: str) -> None:
    env = NativeEnv(name)
    env.reset(seed=0)
    with pytest.raises((ValueError, TypeError), match=message):
        env.step(action)
    legal = env.action_space.sample()
    after = env.step(legal)
    env.reset(seed=0)
    assert np.array_equal(after[0], env.step(legal)[0])


def test_order_of_calls_is_enforced() -> None:
    env = NativeEnv("cartpole", max_steps=1)
    with pytest.raises(RuntimeError, match="needs a reset first"):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(RuntimeError, match="is over and autoreset is disabled"):
        env.step(0)
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="closed"):
        env.reset()
