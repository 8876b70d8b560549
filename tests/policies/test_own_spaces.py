"""A policy takes observations as its env gives them, and returns actions that the env takes."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop.envs.flatten import FlatAction, FlatObservation
from hotloop.envs.space_json import space_from_json, space_to_json
from hotloop.envs.spec import EnvSpec
from hotloop.policies.policy import Policy
from hotloop.policies.protocol import ActRequest
from tests.envs.test_flatten import ACTIONS, NESTED, OBSERVATIONS

MANIFEST = {"env": "module:make", "options": {}, "action_repeat": 1, "steps": 0}


class Echo:
    """A policy that keeps what it was shown, and decides on the same action for every row."""

    memory_len = 0

    def __init__(self, action: Any) -> None:
        self.action = np.asarray(action)
        self.shown: Any = None

    def act(self, request: ActRequest) -> tuple[Any, Any, Any]:
        self.shown = np.array(request.obs)
        return np.stack([self.action] * len(self.shown)), None, None


def policy(observation: spaces.Space[Any], action: spaces.Space[Any], decided: Any) -> tuple[Policy, Echo]:
    seen, done = FlatObservation(observation), FlatAction(action)
    spec = EnvSpec(1, seen.spec, done.spec, masked=False, own_observation=seen.own, own_action=done.own)
    echo = Echo(decided)
    # As a checkpoint keeps it.
    return Policy(echo, EnvSpec.from_json(spec.to_json()), Path(), MANIFEST), echo


@pytest.mark.parametrize("space", [*OBSERVATIONS, *ACTIONS], ids=str)
def test_a_space_comes_back_from_json(space: spaces.Space[Any]) -> None:
    assert space_from_json(space_to_json(space)) == space


@pytest.mark.parametrize("space", OBSERVATIONS, ids=str)
def test_an_observation_of_the_env_is_taken_as_it_is(space: spaces.Space[Any]) -> None:
    agent, echo = policy(space, spaces.Discrete(2), 1)
    space.seed(0)
    obs = space.sample()
    assert agent.act(obs) == 1
    np.testing.assert_array_equal(echo.shown, np.asarray(FlatObservation(space).flatten(obs))[None])


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_an_action_lies_in_the_space_of_the_env(space: spaces.Space[Any]) -> None:
    space.seed(0)
    action = space.sample()
    agent, _ = policy(spaces.Box(-1, 1, (2,)), space, FlatAction(space).flatten(action))
    assert space.contains(agent.act([0.0, 0.0]))


def test_choices_are_counted_from_the_start_of_the_space_alone_and_in_batches() -> None:
    agent, _ = policy(spaces.Box(-1, 1, (2,)), spaces.Discrete(4, start=10), 1)
    assert agent.act([0.0, 0.0]) == 11
    assert agent.act(np.zeros((3, 2), np.float32)).tolist() == [11, 11, 11]


def test_a_batch_of_dicts_is_a_list_of_them_or_a_dict_of_arrays() -> None:
    agent, echo = policy(NESTED, spaces.Discrete(2), 0)
    listed = [NESTED.sample() for _ in range(3)]
    assert agent.act(listed).shape == (3,)
    apart = echo.shown
    stacked = {
        "place": np.stack([obs["place"] for obs in listed]),
        "choice": np.array([obs["choice"] for obs in listed]),
        "pair": tuple(np.stack([obs["pair"][i] for obs in listed]) for i in range(2)),
    }
    assert agent.act(stacked).shape == (3,)
    np.testing.assert_array_equal(echo.shown, apart)
    # As `hotloop.make_vec` gives them.
    assert agent.act(apart).shape == (3,)
    np.testing.assert_array_equal(echo.shown, apart)


def test_a_dict_that_does_not_fit_is_an_error_that_says_why() -> None:
    agent, _ = policy(NESTED, spaces.Discrete(2), 0)
    obs = NESTED.sample()
    with pytest.raises(ValueError, match=r"obs does not fit the observation space of module:make: there is no 'place'"):
        agent.act({"choice": obs["choice"], "pair": obs["pair"]})
    with pytest.raises(ValueError, match="does not lie in Discrete"):
        agent.act({**obs, "choice": 99})
    with pytest.raises(ValueError, match="not finite"):
        agent.act({**obs, "place": np.full((2, 2), np.nan)})


def test_a_mask_beside_the_observation_is_taken_as_the_mask() -> None:
    agent, _ = policy(spaces.Box(-1, 1, (2,)), spaces.Discrete(2), 1)
    assert agent.act({"observation": np.zeros(2, np.float32), "action_mask": np.array([0, 1])}) == 1


class Nested(gymnasium.Env[Any, Any]):
    """Rewards the choice that a dict names."""

    observation_space = spaces.Dict({"goal": spaces.Discrete(2, start=5), "noise": spaces.Box(0, 1, (2,))})
    action_space = spaces.Discrete(2, start=10)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._goal = 5 + int(self.np_random.integers(2))
        return {"goal": self._goal, "noise": self.np_random.random(2, np.float32)}, {}

    def step(self, action: int) -> Any:
        assert self.action_space.contains(action)
        reward = float(action - 10 == self._goal - 5)
        return self.reset()[0], reward, True, False, {}


def test_a_trained_policy_plays_the_env_itself(tmp_path: Path) -> None:
    config = {
        "runner.num_envs": 16,
        "runner.num_workers": 1,
        "ppo.horizon": 16,
        "ppo.minibatch_size": 64,
        "policy.hidden": [16],
        "train.evaluate_episodes": 4,
    }
    run = hotloop.train("tests.policies.test_own_spaces:Nested", steps=8192, config=config, home=tmp_path)
    agent = hotloop.load(run.path)
    env = Nested()
    obs, _ = env.reset(seed=0)
    earned = 0.0
    for _ in range(20):
        obs, reward, *_ = env.step(agent.act(obs))
        earned += reward
    assert earned == 20
