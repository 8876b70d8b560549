"""Stable-Baselines3 trains on native envs through the adapter."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.vec_env import VecEnv, VecMonitor, VecNormalize

import hotloop
from hotloop.integrations.sb3 import SB3VecEnv
from tests.trajectories import choose


def test_infos_are_what_sb3_expects() -> None:
    envs = SB3VecEnv("cartpole", num_envs=5, options={"max_steps": 12})
    plain = hotloop.make_vec("cartpole", 5, options={"max_steps": 12}, autoreset_mode="same_step")
    envs.seed(3)
    obs: Any = envs.reset()
    assert isinstance(envs, VecEnv)
    assert np.array_equal(obs, plain.reset(seed=[3, 4, 5, 6, 7])[0])
    returns, lengths, ended = np.zeros(5), np.zeros(5, int), 0
    for step in range(100):
        actions = choose(envs.action_space, 5, step)
        obs, reward, done, infos = envs.step(actions)
        expected = plain.step(actions)
        returns += reward
        lengths += 1
        assert np.array_equal(obs, expected[0])
        assert np.array_equal(done, expected[2] | expected[3])
        for row, info in enumerate(infos):
            if not done[row]:
                assert info == {}
                continue
            ended += 1
            assert np.array_equal(info["terminal_observation"], expected[4]["final_obs"][row])
            assert info["TimeLimit.truncated"] is bool(expected[3][row] and not expected[2][row])
            assert (info["episode"]["r"], info["episode"]["l"]) == (returns[row], lengths[row])
            returns[row] = lengths[row] = 0
    assert ended > 20
    envs.close()


def test_masks_are_offered_as_maskable_algorithms_ask_for_them() -> None:
    envs = SB3VecEnv("tictactoe", num_envs=3)
    assert envs.has_attr("action_masks")
    envs.seed(0)
    envs.reset()
    for step in range(20):
        masks = np.stack(envs.env_method("action_masks"))
        assert masks.dtype == np.bool_
        assert masks.shape == (3, 9)
        actions = choose(envs.action_space, 3, step, masks.astype(np.int8))
        envs.step(actions)
    assert np.array_equal(envs.env_method("action_masks", indices=1)[0], envs.get_attr("action_masks")[1]())
    plain = SB3VecEnv("cartpole")
    assert not plain.has_attr("action_masks")
    with pytest.raises(AttributeError, match="no method 'jump'"):
        plain.env_method("jump")
    with pytest.raises(AttributeError, match="use set_options and reset"):
        plain.set_attr("gravity", 1.0)
    assert plain.env_is_wrapped(gymnasium.Wrapper) == [False]


def test_options_hold_from_the_next_reset_on() -> None:
    envs = SB3VecEnv("cartpole", num_envs=2)
    envs.set_options([{"max_steps": 1}, {}])
    envs.reset()
    assert envs.step(np.zeros(2, np.int64))[2].tolist() == [True, False]


def test_several_seats_are_refused() -> None:
    with pytest.raises(ValueError, match="tag has 4 seats under these options"):
        SB3VecEnv("tag", num_envs=2)


@pytest.mark.parametrize(
    ("name", "options", "algorithm"),
    [("pendulum", {}, PPO), ("taxi", {"masked": False}, A2C), ("recall", {"symbols": 2}, PPO)],
)
@pytest.mark.filterwarnings("ignore:You are trying to run (PPO|A2C) on the GPU:UserWarning")
def test_algorithms_train_through_sb3s_own_wrappers(name: str, options: dict[str, Any], algorithm: Any) -> None:
    envs: Any = VecMonitor(SB3VecEnv(name, num_envs=4, options=options))
    if name == "pendulum":
        envs = VecNormalize(envs)
    keywords = {"n_steps": 32} if algorithm is A2C else {"n_steps": 32, "batch_size": 64, "n_epochs": 1}
    model = algorithm("MlpPolicy", envs, device="cpu", seed=0, **keywords)
    model.learn(512)
    assert model.num_timesteps >= 512
    envs.close()


def test_ppo_learns_cartpole_as_the_example_shows(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("sb3_cartpole", repository / "examples/sb3_cartpole.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "sb3_cartpole", example)
    spec.loader.exec_module(example)
    # A random policy gets 22.
    assert example.main(12_000) > 80
