"""Advantages against a textbook loop: truncations, terminations, turns of others, faults, and other policies' rows."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hotloop import _core
from tests.ppo.reference import SETTINGS, values_of

Floats = NDArray[np.float64]


def textbook(rollout: dict[str, NDArray[Any]], row: int, gamma: float, lam: float, clip: float) -> dict[str, Floats]:
    """One row's advantages and weights, decision by decision, forwards in words and backwards in code.

    A decision's reward is all that came until the next decision or the episode's end.
    """
    horizon = len(rollout["reward"])
    decisions = [t for t in range(horizon) if rollout["valid"][t, row]]
    ends = (rollout["terminated"] | rollout["truncated"])[:, row]
    advantage, weight = np.zeros(horizon), np.zeros(horizon)
    later = 0.0
    spoiled = False
    upcoming = horizon
    for t in reversed(decisions):
        end = next((k for k in range(t, upcoming) if ends[k]), None)
        last = upcoming - 1 if end is None else end
        earned = sum(float(np.clip(rollout["reward"][k, row], -clip, clip)) for k in range(t, last + 1))
        if end is None:
            follows = float(rollout["value"][upcoming, row])
        else:
            follows = 0.0 if rollout["terminated"][end, row] else float(rollout["bootstrap"][end, row])
            later = 0.0
            spoiled = bool(rollout["cut"][end, row])
        delta = earned + gamma * follows - float(rollout["value"][t, row])
        advantage[t] = later = delta + gamma * lam * later
        weight[t] = float(not spoiled and rollout["policy"][t, row] == 0)
        upcoming = t
    return {"advantage": advantage, "weight": weight}


@settings(max_examples=60)
@given(
    envs=st.integers(1, 70),
    horizon=st.integers(1, 20),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
    clip=st.sampled_from([math.inf, 0.5]),
    turns=st.floats(0, 1),
    ends=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_advantages_are_the_textbooks(
    envs: int, horizon: int, gamma: float, lam: float, clip: float, turns: float, ends: float, seed: int
) -> None:
    learner = _core.PpoLearner("cartpole", None, {"hidden": [3]}, rows=envs, horizon=horizon, seed=0)
    rollout = learner.rollout()
    draw = np.random.default_rng(seed)
    shape = (horizon, envs)
    rollout["reward"][:] = draw.normal(0, 1, shape)
    rollout["value"][:] = draw.normal(0, 1, (horizon + 1, envs))
    rollout["bootstrap"][:] = draw.normal(0, 1, shape)
    rollout["terminated"][:] = draw.random(shape) < ends / 3
    rollout["truncated"][:] = draw.random(shape) < ends / 3
    rollout["cut"][:] = rollout["truncated"] & (draw.random(shape) < 0.3)
    rollout["valid"][:] = draw.random((horizon + 1, envs)) >= turns
    rollout["policy"][:] = draw.integers(0, 2, (horizon + 1, envs))
    # The values of the rows that do not decide after the last step stand for what they will see when they do.
    learner.advantages({**SETTINGS, "gamma": gamma, "gae_lambda": lam, "reward_clip": clip})
    for row in range(envs):
        expected = textbook(rollout, row, gamma, lam, clip)
        np.testing.assert_allclose(rollout["advantage"][:, row], expected["advantage"], rtol=2e-4, atol=2e-5)
        np.testing.assert_array_equal(rollout["weight"][:, row], expected["weight"])
    used = rollout["weight"] > 0
    np.testing.assert_array_equal(rollout["target"][used], (rollout["advantage"] + rollout["value"][:-1])[used])


def test_a_truncated_episode_is_bootstrapped_from_what_it_saw_last() -> None:
    pool = _core.Pool("pendulum", 3, num_threads=1, options={"max_steps": 5}, autoreset="same_step")
    pool.seed(1)
    pool.reset()
    learner = _core.PpoLearner("pendulum", {"max_steps": 5}, {"hidden": [8]}, rows=3, horizon=5, seed=0)
    learner.collect(pool, SETTINGS)
    rollout = {name: array.copy() for name, array in learner.rollout().items()}
    again = _core.Pool("pendulum", 3, num_threads=1, options={"max_steps": 5}, autoreset="same_step")
    again.seed(1)
    again.reset()
    for action in rollout["action"]:
        *_, truncated, info = again.step(np.clip(action, -2, 2))
    assert truncated.all()
    assert rollout["truncated"][4].all()
    seen_last = info["finals"][1]
    np.testing.assert_array_equal(rollout["bootstrap"][4], values_of(learner, seen_last))
    expected = rollout["reward"][4] + np.float32(0.97) * rollout["bootstrap"][4] - rollout["value"][4]
    np.testing.assert_allclose(rollout["advantage"][4], expected, rtol=1e-5)
