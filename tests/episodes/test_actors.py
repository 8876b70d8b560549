"""Who plays an episode: chance among what is allowed, or a policy as in evaluations."""

from pathlib import Path

import numpy as np
import pytest

import hotloop
from hotloop.episodes.actors import policy_actor, random_actor
from hotloop.episodes.episode import Episode
from hotloop.training import evaluate


def test_chance_takes_only_what_is_allowed_and_all_of_it() -> None:
    choose = random_actor(Episode("tictactoe", {}, seed=0))
    mask = np.array([[0, 1, 0, 0, 1, 0, 0, 0, 1]], np.int8)
    taken = {int(choose(np.zeros(1), mask, step)[0]) for step in range(200)}
    assert taken == {1, 4, 8}


def test_chance_fills_every_set_and_every_amount() -> None:
    several = random_actor(Episode("recall", {"symbols": 3, "cues": 5}, seed=0))
    choices = np.concatenate([several(np.zeros((1, 16)), None, step) for step in range(200)])
    assert choices.shape == (200, 3)
    assert [set(column) for column in choices.T.tolist()] == [set(range(5))] * 3
    torque = random_actor(Episode("pendulum", {}, seed=0))
    torques = np.concatenate([torque(np.zeros((1, 3)), None, step) for step in range(200)])
    assert -2.0 <= torques.min() < -1.5
    assert 1.5 < torques.max() <= 2.0


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_policy_plays_the_episodes_of_its_evaluation(deterministic: bool, tmp_path: Path) -> None:
    run = hotloop.train("taxi", steps=8192, home=tmp_path, config={"train.until": None})
    agent = hotloop.load(run.path)
    found = evaluate(agent.learner, "taxi", agent.options, episodes=4, seed=9, deterministic=deterministic)
    totals = []
    for index in range(4):
        episode = Episode("taxi", agent.options, seed=9, index=index)
        episode.finish(policy_actor(agent, episode, deterministic=deterministic))
        totals.append(episode.returns[0])
    assert np.mean(totals) == pytest.approx(found.mean)


@pytest.mark.parametrize(("env", "options"), [("recall", {}), ("tictactoe", {"opponent": "self"})])
def test_a_policy_with_memory_remembers_as_in_its_evaluation(env: str, options: dict[str, str], tmp_path: Path) -> None:
    config = {"train.until": None, "policy.memory": "gru", "policy.memory_size": 8}
    config |= {f"env.{key}": value for key, value in options.items()}
    run = hotloop.train(env, steps=8192, home=tmp_path, config=config)
    agent = hotloop.load(run.path)
    seats = 2 if options else 1
    found = evaluate(agent.learner, env, agent.options, episodes=8 * seats, seed=9)
    totals = []
    for index in range(8):
        episode = Episode(env, agent.options, seed=9, index=index)
        episode.finish(policy_actor(agent, episode))
        totals += episode.returns.tolist()
    assert np.mean(totals) == pytest.approx(found.mean)
