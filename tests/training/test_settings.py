"""General settings: chosen by the kind of env where nothing is packaged, never against what the user gave."""

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop.config import Config, ConfigError, load_config
from hotloop.envs.spec import (
    BoxObservation,
    BytesObservation,
    ContinuousAction,
    DiscreteAction,
    DiscreteObservation,
    EnvSpec,
)
from hotloop.training import Callback
from hotloop.training.callbacks import StartReport
from hotloop.training.settings import Facts, choose, fill, look_at, settle

VECTOR = BoxObservation((3,), (-math.inf,) * 3, (math.inf,) * 3)
CHOICE, PUSH = DiscreteAction(2), ContinuousAction((-1.0,), (1.0,))
PYTHON = "gymnasium:CartPole-v1"
FAST = 10_000.0


class Start(Callback):
    """Keeps the report of the start."""

    report: StartReport

    def start(self, report: StartReport) -> None:
        self.report = report


def chosen(spec: EnvSpec, speed: float | None = FAST, **changes: Any) -> tuple[Config, str]:
    config = load_config(PYTHON, overrides={key.replace("__", "."): value for key, value in changes.items()})
    settings, why = choose(Facts(spec, speed, is_native=speed is None), config)
    return fill(config, settings), why


def test_continuous_actions_get_separate_networks_and_small_minibatches() -> None:
    config, why = chosen(EnvSpec(1, VECTOR, PUSH, masked=False))
    assert why == "continuous actions, 10.0 k steps/s per env"
    assert not config.policy.shared
    assert (config.ppo.normalize_observations, config.ppo.normalize_rewards) == (True, True)
    assert config.ppo.minibatch_size <= 256


@pytest.mark.parametrize("observation", [VECTOR, DiscreteObservation(9)])
def test_discrete_actions_get_an_entropy_bonus(observation: BoxObservation | DiscreteObservation) -> None:
    config, why = chosen(EnvSpec(1, observation, CHOICE, masked=True))
    assert why.startswith("discrete actions")
    assert config.ppo.entropy > 0


def test_images_get_the_settings_that_are_usual_for_them() -> None:
    config, why = chosen(EnvSpec(1, BytesObservation((84, 84, 4), 255), CHOICE, masked=False))
    assert why.startswith("image observations")
    assert (config.policy.hidden, config.policy.activation, config.ppo.clip) == ([512], "relu", 0.1)
    assert not config.ppo.normalize_observations


def test_several_agents_share_few_envs() -> None:
    config, why = chosen(EnvSpec(16, VECTOR, CHOICE, masked=False))
    assert "16 agents" in why
    assert config.runner.num_envs * 16 >= 32
    assert config.runner.num_envs < chosen(EnvSpec(1, VECTOR, CHOICE, masked=False))[0].runner.num_envs


def test_native_code_gets_many_envs_and_large_minibatches() -> None:
    spec = EnvSpec(1, VECTOR, PUSH, masked=False)
    (native, why), (python, _) = chosen(spec, None), chosen(spec)
    assert why == "continuous actions, native code"
    assert native.runner.num_envs > python.runner.num_envs
    assert native.ppo.minibatch_size > python.ppo.minibatch_size
    assert not native.policy.shared


def test_slow_envs_keep_all_cores_busy_with_rollouts_of_about_the_same_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotloop._core.usable_cores", lambda: 16)
    spec = EnvSpec(1, VECTOR, PUSH, masked=False)
    (slow, _), (quick, _) = chosen(spec, 20.0), chosen(spec)
    assert slow.runner.num_envs == 32
    assert slow.runner.num_envs * slow.ppo.horizon == quick.runner.num_envs * quick.ppo.horizon
    assert slow.track.interval < quick.track.interval


def test_settings_that_the_user_gave_stay() -> None:
    spec = EnvSpec(1, VECTOR, PUSH, masked=False)
    config, _ = chosen(spec, policy__shared=True, ppo__epochs=3, runner__num_envs=5)
    assert (config.policy.shared, config.ppo.epochs, config.runner.num_envs) == (True, 3, 5)
    assert config.ppo.normalize_rewards


def test_a_run_on_a_python_env_says_which_settings_it_chose_and_why(tmp_path: Path) -> None:
    start = Start()
    run = hotloop.train(
        PYTHON, steps=64, home=tmp_path, config={"train.evaluate_episodes": 1, "ppo.horizon": 4}, callbacks=[start]
    )
    (note,) = [note for note in start.report.notes if note.startswith("settings: ")]
    assert note.startswith("settings: discrete actions, ")
    assert "steps/s per env: 16 envs x 4 steps, " in note
    assert (run.config.ppo.normalize_observations, run.config.ppo.normalize_rewards) == (True, True)
    resumed = hotloop.train(resume=run.path, steps=128, callbacks=[start])
    assert resumed.config.ppo == run.config.ppo
    assert not any(note.startswith("settings: ") for note in start.report.notes)


def test_a_packaged_config_is_taken_as_it_is() -> None:
    notes: list[str] = []
    assert settle(load_config("cartpole"), notes.append) == load_config("cartpole")
    assert notes == []


def test_a_minibatch_that_is_larger_than_the_rollout_is_cut_with_a_notice(tmp_path: Path) -> None:
    start = Start()
    small = {"runner.num_envs": 2, "ppo.horizon": 16, "train.evaluate_episodes": 0, "train.until": None}
    run = hotloop.train("cartpole", steps=64, home=tmp_path, config=small, callbacks=[start])
    assert run.config.ppo.minibatch_size == 32
    assert "ppo.minibatch_size is 32 instead of 256: a rollout has only 32 steps" in start.report.notes
    assert hotloop.train(resume=run.path, steps=128).config.ppo.minibatch_size == 32
    with pytest.raises(ConfigError, match=r"set ppo\.minibatch_size to at most 32"):
        hotloop.train("cartpole", steps=64, home=tmp_path, config={**small, "ppo.minibatch_size": 33})
    with pytest.raises(ConfigError, match=r"set ppo\.minibatch_size to at most 32"):
        hotloop.train(PYTHON, steps=64, home=tmp_path, config={**small, "ppo.minibatch_size": 33})


def test_minibatches_of_a_recurrent_policy_are_made_of_whole_sequences() -> None:
    notes: list[str] = []
    changes = {"policy.memory": "lstm", "ppo.horizon": 96}
    config = settle(load_config("cartpole", overrides=changes), notes.append)
    assert config.ppo.minibatch_size == 192
    assert notes == ["ppo.minibatch_size is 192 instead of 256: sequences have 96 steps"]
    assert settle(load_config(PYTHON, overrides={"policy.memory": "lstm"}), notes.append).ppo.minibatch_size == 128


class Masked(gymnasium.Env[Any, Any]):
    """An env that rejects masked actions."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.MultiDiscrete([2, 3])

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([0, 1, 0, 0, 1], np.int8)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2, np.float32), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert tuple(action) == (1, 2), action
        return np.zeros(2, np.float32), 0.0, False, False, self._info()


def test_the_speed_of_an_env_is_measured_with_actions_that_it_allows() -> None:
    facts = look_at(load_config(f"{__name__}:Masked", overrides={"runner.num_workers": 0}))
    assert facts.steps_per_second is not None
    assert facts.steps_per_second > 0


class Failing(Masked):
    """An env that never gets through a step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        raise RuntimeError("out of order")


def test_an_env_that_keeps_failing_is_left_to_the_run_to_report() -> None:
    facts = look_at(load_config(f"{__name__}:Failing", overrides={"runner.restart_limit": 2}))
    assert facts.steps_per_second is None
    assert choose(facts, load_config(PYTHON))[1] == "discrete actions"


def test_an_env_that_cannot_be_made_is_reported_before_there_is_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="NoSuchEnv"):
        hotloop.train("gymnasium:NoSuchEnv-v0", steps=64, home=tmp_path)
    assert not (tmp_path / "runs").exists()


def test_the_speed_of_an_env_is_measured_only_if_it_decides_something() -> None:
    def speed(**overrides: int) -> float | None:
        chosen = {name.replace("__", "."): value for name, value in overrides.items()}
        return look_at(load_config("gymnasium:CartPole-v1", overrides=chosen)).steps_per_second

    assert speed(runner__num_envs=2, ppo__horizon=8) is None
    assert speed(runner__num_envs=2) is not None
