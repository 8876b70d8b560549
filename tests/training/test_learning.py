"""Every kind of task is learned, with its packaged settings and a fixed seed: what fails here has stopped learning."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop import _core
from hotloop.ppo.learners import Learner
from hotloop.training.evaluation import evaluate

# Mean returns over fresh episodes with the most probable actions. Chance alone gives: cartpole 22, acrobot -500,
# mountain-car -200, pendulum -1200, frozen-lake 0.02, and with their masks taxi -185, tictactoe 0.03.
LEARNED = {
    "cartpole": 475.0,
    "acrobot": -100.0,
    "mountain-car": -130.0,
    "pendulum": -200.0,
    "frozen-lake": 0.7,
    "taxi": 7.0,
    "tictactoe": 0.9,
}


@pytest.mark.parametrize("env", LEARNED)
def test_a_task_is_learned(env: str, tmp_path: Path) -> None:
    run = hotloop.train(env, seed=1, home=tmp_path)
    agent = hotloop.load(run.path)
    found = evaluate(agent.learner, env, agent.options, episodes=500, seed=2**40 + 1)
    assert found.mean >= LEARNED[env], (found, run.ended, run.steps)


def catches(taggers: Learner, runners: Learner, policy: dict[str, Any]) -> float:
    """How often a tagger catches a runner, per step, each played by a policy of its own."""
    envs, horizon, options = 256, 128, {"seats": 2}
    player = _core.PpoLearner("tag", options, policy, rows=2 * envs, horizon=horizon, seed=3)
    player.set_arrays(taggers.arrays())
    player.set_opponents([(policy, runners.arrays(), {})])
    pool = _core.Pool("tag", envs, num_threads=1, options=options, autoreset="same_step")
    pool.seed(99)
    pool.set_policies([0, 1] * envs)
    pool.reset()
    player.collect(pool, {})
    return float(player.rollout()["reward"].reshape(horizon, envs, 2)[..., 0].mean(dtype=np.float64))


def test_two_teams_that_share_a_policy_both_learn(tmp_path: Path) -> None:
    config = {
        "env.seats": 2,
        "runner.num_envs": 128,
        "ppo.horizon": 64,
        "ppo.epochs": 4,
        "ppo.minibatch_size": 2048,
        "ppo.learning_rate": 2e-3,
        "ppo.entropy": 0.01,
    }
    run = hotloop.train("tag", seed=0, steps=1_500_000, config=config, home=tmp_path)
    learned = hotloop.load(run.path).learner
    assert isinstance(learned, _core.PpoLearner)
    policy = {"hidden": run.config.policy.hidden}
    chance = _core.PpoLearner("tag", {"seats": 2}, policy, rows=1, horizon=1, seed=1234)
    random_actor = catches(chance, chance, policy)
    assert catches(learned, chance, policy) > 5 * random_actor
    assert catches(chance, learned, policy) < random_actor / 5
