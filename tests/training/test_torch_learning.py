"""Learning tests of the torch learner: images, and with memory, cues from the past."""

from pathlib import Path
from typing import Any

import pytest

import hotloop
from hotloop.policies.policy import Policy
from hotloop.training.evaluation import evaluate

# The ball of catch is seen in the first picture only.
HIDDEN: dict[str, Any] = {"env.height": 6, "env.visible": 1}


def mean_return(agent: Policy) -> float:
    return evaluate(agent.learner, agent.env, agent.options, episodes=200, seed=2**40 + 1).mean


def test_a_task_of_pictures_is_learned_by_a_cnn(tmp_path: Path) -> None:
    run = hotloop.train("catch", seed=1, home=tmp_path)
    agent = hotloop.load(run.path)
    assert any(name.startswith("conv.") for name in agent.learner.arrays())  # type: ignore[attr-defined]
    assert mean_return(agent) >= 0.95


def test_a_cnn_with_memory_catches_what_it_does_not_see(tmp_path: Path) -> None:
    config = {**HIDDEN, "policy.memory": "lstm", "policy.memory_size": 32}
    run = hotloop.train("catch", seed=2, config=config, home=tmp_path)
    assert mean_return(hotloop.load(run.path)) >= 0.9


def test_a_cnn_without_memory_does_not(tmp_path: Path) -> None:
    run = hotloop.train("catch", seed=2, steps=60_000, config=HIDDEN, home=tmp_path)
    assert not run.solved
    # After one step the paddle is in one of three columns, which is all that it can know: three balls of five.
    assert mean_return(hotloop.load(run.path)) < 0.5


# Episodes of 42 steps, as long as the horizon; large minibatches, since each costs a loop over time.
RECALL: dict[str, Any] = {
    "train.learner": "torch",
    "env.delay": 40,
    "policy.memory_size": 32,
    "ppo.horizon": 42,
    "ppo.minibatch_size": 2688,
    "ppo.epochs": 4,
    "track.interval": 8,
    "torch.num_threads": 1,
}


@pytest.mark.parametrize(
    ("memory", "seed", "rate"), [("lstm", 2, 0.003), pytest.param("gru", 3, 0.01, marks=pytest.mark.full)]
)
def test_a_cue_is_recalled_after_forty_steps(memory: str, seed: int, rate: float, tmp_path: Path) -> None:
    config = {**RECALL, "policy.memory": memory, "ppo.learning_rate": rate}
    run = hotloop.train("recall", seed=seed, config=config, home=tmp_path)
    assert run.solved
    assert mean_return(hotloop.load(run.path)) >= 0.97


def test_without_memory_the_cue_is_lost(tmp_path: Path) -> None:
    run = hotloop.train("recall", seed=1, steps=100_000, config={**RECALL, "policy.memory": "none"}, home=tmp_path)
    assert not run.solved
    assert mean_return(hotloop.load(run.path)) < 0.45


def test_a_task_with_masks_is_learned_with_memory(tmp_path: Path) -> None:
    config = {
        "train.learner": "torch",
        "torch.num_threads": 1,
        "policy.hidden": [32],
        "policy.memory": "gru",
        "policy.memory_size": 32,
        "train.until": None,
    }
    run = hotloop.train("tictactoe", seed=1, steps=120_000, config=config, home=tmp_path)
    # Chance alone gives 0.03.
    assert mean_return(hotloop.load(run.path)) > 0.5
