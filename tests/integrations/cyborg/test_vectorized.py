"""The vector interface of existing trainers, over the native env."""

from typing import Any

import numpy as np
import pytest

from hotloop.integrations.cyborg import VectorizedCAGE2Envs


class RedMeanderAgent:
    """Stands for the simulator's class of that name, which is not installed here."""


def test_has_the_interface_that_trainers_use() -> None:
    envs = VectorizedCAGE2Envs(25, None, RedMeanderAgent)
    assert (envs.n_envs, envs.observation_shape, envs.observation_space.shape) == (25, (52,), (52,))
    observations = envs.reset()
    assert (observations.shape, observations.dtype.name) == ((25, 52), "float32")
    assert not observations.any()
    observations, rewards, dones, infos = envs.step(np.random.default_rng(0).integers(145, size=25))
    assert (observations.shape, observations.dtype.name) == ((25, 52), "float32")
    assert (rewards.shape, rewards.dtype.name) == ((25,), "float32")
    assert (dones.shape, dones.dtype.name) == ((25,), "bool")
    assert infos == [{}] * 25
    envs.close()


def test_episodes_never_end_by_default() -> None:
    endless = VectorizedCAGE2Envs(4, red_agent_type="B_lineAgent", seed=0)
    assert not any(endless.step(np.zeros(4, int))[2].any() for _ in range(250))
    ending = VectorizedCAGE2Envs(4, red_agent_type="B_lineAgent", seed=0, episode_length=100)
    ends = [ending.step(np.zeros(4, int)) for _ in range(200)]
    assert [step for step, end in enumerate(ends, 1) if end[2].any()] == [100, 200]
    assert not ends[99][0].any()


def test_some_envs_can_be_reset() -> None:
    envs = VectorizedCAGE2Envs(6, red_agent_type="b-line", seed=1)
    for _ in range(20):
        before = envs.step(np.zeros(6, int))[0]
    after = envs.reset([1, 4])
    assert not after[[1, 4]].any()
    assert (after[[0, 2, 3, 5]] == before[[0, 2, 3, 5]]).all()
    with pytest.raises(ValueError, match=r"env_ids is \[6\]: expected numbers from 0 to 5"):
        envs.reset([6])


def test_a_seed_repeats_everything() -> None:
    def play(seed: int | None) -> Any:
        envs = VectorizedCAGE2Envs(8, seed=seed)
        return np.stack([envs.step(np.zeros(8, int))[0] for _ in range(60)])

    assert (play(3) == play(3)).all()
    assert (play(3) != play(4)).any()


def test_true_states_name_reds_sessions() -> None:
    envs = VectorizedCAGE2Envs(2, red_agent_type="b-line", seed=0)
    states = envs.get_true_states()
    assert len(states) == 2
    assert states[0]["User0"]["Sessions"] == [{"Agent": "Red", "Username": "SYSTEM"}]
    assert states[0]["Op_Server0"]["Sessions"] == []
    for _ in range(40):
        envs.step(np.zeros(2, int))
    state = envs.get_true_states()[0]
    assert "root" in [session["Username"] for session in state["Op_Server0"]["Sessions"]]
    assert state["Op_Server0"]["Services"] == {"OTService": {"active": False}}


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no red agent 'GreenAgent': expected one of b-line, meander, sleep"):
        VectorizedCAGE2Envs(1, red_agent_type="GreenAgent")
    with pytest.raises(ValueError, match="scenario_path is '/x/Scenario1': only Scenario2"):
        VectorizedCAGE2Envs(1, scenario_path="/x/Scenario1")
    with pytest.raises(ValueError, match="episode_length is 0"):
        VectorizedCAGE2Envs(1, episode_length=0)
    with pytest.raises(ValueError, match="actions hold 145 to 145: expected 0 to 144"):
        VectorizedCAGE2Envs(1).step([145])
