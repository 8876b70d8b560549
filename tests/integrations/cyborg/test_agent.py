"""A trained policy behind the challenge's `get_action`."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import hotloop
from hotloop.integrations.cyborg import ChallengeAgent


@pytest.fixture(scope="module", params=[("compact", "memory"), ("full", "bits")], ids="-".join)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    actions, features = request.param
    config: dict[str, Any] = {
        "env.actions": actions,
        "env.features": features,
        "runner.num_envs": 32,
        "ppo.horizon": 64,
        "ppo.minibatch_size": 2048,
        "train.evaluate_episodes": 0,
    }
    return hotloop.train("cage2", steps=60_000, home=tmp_path_factory.mktemp("home"), config=config).path


def test_plays_the_challenges_interface_as_the_policy_plays_its_own(run: Path) -> None:
    agent, policy = ChallengeAgent(run), hotloop.load(run)
    real = hotloop.make_vec("cage2", 1, options={"red": "meander", "lengths": [50]})
    own = hotloop.make_vec("cage2", 1, options={**policy.options, "red": "meander", "lengths": [50]})
    for episode in range(3):
        bits, _ = real.reset(seed=episode)
        seen, info = own.reset(seed=episode)
        returns = np.zeros(2)
        for _ in range(50):
            bits, reward, *_ = real.step([agent.get_action(bits[0], 145)])
            returns[0] += reward[0]
            seen, reward, _, _, info = own.step([policy.act(seen[0], mask=info.get("action_mask"))])
            returns[1] += reward[0]
        agent.end_episode()
        assert returns[0] == returns[1]


def test_what_does_not_fit_is_refused(run: Path) -> None:
    agent = ChallengeAgent(run)
    with pytest.raises(ValueError, match="action_space has 41 actions: expected the challenge's 145"):
        agent.get_action(np.zeros(52), 41)
    with pytest.raises(ValueError, match="action_space has 54 actions"):
        agent.get_action(np.zeros(52), gymnasium.spaces.Discrete(54))
    with pytest.raises(ValueError, match=r"observation has shape \(62,\): expected the challenge's 52 bits"):
        agent.get_action(np.zeros(62), 145)
    with pytest.raises(ValueError, match=r"observation holds 0\.5: expected 52 bits"):
        agent.get_action(np.full(52, 0.5), 145)


def test_a_policy_for_another_env_is_refused(tmp_path: Path) -> None:
    other = hotloop.train("cartpole", steps=2048, home=tmp_path)
    with pytest.raises(ValueError, match="is a policy for cartpole, which has another action space: expected cage2"):
        ChallengeAgent(other.path)
