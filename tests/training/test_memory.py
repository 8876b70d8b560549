"""Policies with memory: what they learn that others cannot, and that they are repeated and loaded like any other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.policies.policy import Policy
from hotloop.policies.protocol import ActRequest
from hotloop.training.evaluation import evaluate
from hotloop.training.verification import verify


def mean_return(agent: Policy) -> float:
    return evaluate(agent.learner, agent.env, agent.options, episodes=200, seed=2**40 + 1).mean


@pytest.mark.parametrize(("memory", "seed"), [("lstm", 301), ("gru", 300)])
def test_a_cue_is_recalled_after_forty_steps(memory: str, seed: int, tmp_path: Path) -> None:
    run = hotloop.train("recall", seed=seed, config={"env.delay": 40, "policy.memory": memory}, home=tmp_path)
    assert run.solved
    assert mean_return(hotloop.load(run.path)) >= 0.97


def test_without_memory_the_cue_is_lost(tmp_path: Path) -> None:
    run = hotloop.train("recall", seed=1, steps=200_000, config={"policy.memory": "none"}, home=tmp_path)
    assert not run.solved
    assert mean_return(hotloop.load(run.path)) < 0.45


def test_a_task_with_masks_is_learned_with_memory(tmp_path: Path) -> None:
    config = {"policy.hidden": [32], "policy.memory": "gru", "policy.memory_size": 32, "train.until": None}
    run = hotloop.train("tictactoe", seed=1, steps=250_000, config=config, home=tmp_path)
    # Chance alone gives 0.03.
    assert mean_return(hotloop.load(run.path)) > 0.6


def small(home: Path, **changes: Any) -> hotloop.training.Run:
    config = {
        "runner.num_envs": 16,
        "ppo.horizon": 16,
        "ppo.minibatch_size": 64,
        "ppo.sequence_length": 8,
        "policy.memory_size": 12,
        "train.until": None,
        **changes,
    }
    return hotloop.train("recall", seed=2, steps=16 * 16 * 20, config=config, home=home)


def test_a_run_with_memory_is_repeated_exactly(tmp_path: Path) -> None:
    run = small(tmp_path)
    assert verify(run.path, home=tmp_path).same


def test_a_policy_keeps_the_state_of_each_row_until_it_is_reset(tmp_path: Path) -> None:
    agent = hotloop.load(small(tmp_path).path)
    draw = np.random.default_rng(0)
    obs = draw.random((5, 3, 5)).astype(np.float32)
    memory = np.zeros((3, agent.learner.memory_len), np.float32)
    for step in range(5):
        if step == 3:
            agent.reset([1])
            memory[1] = 0.0
        expected, _, _ = agent.learner.act(ActRequest(obs[step], deterministic=True, state=memory))
        np.testing.assert_array_equal(agent.act(obs[step]), expected)
        np.testing.assert_array_equal(agent._memory, memory)
    with pytest.raises(
        ValueError, match=r"obs has 2 rows, but this policy keeps the recurrent state of 3: call reset\(\)"
    ):
        agent.act(obs[0, :2])
    agent.reset()
    agent.act(obs[0, 0])
    assert agent._memory is not None
    assert len(agent._memory) == 1
