"""What the torch learner learns: pictures, and with memory what cannot be seen any more."""

from pathlib import Path
from typing import Any

import hotloop
from hotloop.policies.agent import Agent
from hotloop.training.evaluation import evaluate

# The ball of catch is seen in the first picture only.
HIDDEN: dict[str, Any] = {"env.height": 6, "env.visible": 1}


def mean_return(agent: Agent) -> float:
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
