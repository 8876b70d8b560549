"""Settings of Python envs in training: scaled actions, logged infos, wrappers, and an evaluation env of its own."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop.errors import ConfigError
from hotloop.training.callbacks import Callback, IterationReport, StartReport
from tests.cli.command import hotloop_json

HERE = "tests.training.test_env_settings"
SMALL = {
    "runner.num_envs": 8,
    "runner.num_workers": 1,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "policy.hidden": [16],
    "train.evaluate_episodes": 4,
    "track.interval": 1,
}


class Heard(Callback):
    def __init__(self) -> None:
        self.notes: tuple[str, ...] = ()
        self.records: list[IterationReport] = []

    def start(self, report: StartReport) -> None:
        self.notes = report.notes

    def iteration(self, report: IterationReport) -> None:
        self.records.append(report)


class Wide(gymnasium.Env[Any, Any]):
    """Asks for an action of 70 out of -100 to 100."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Box(-100, 100, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return np.zeros(1, np.float32), -abs(float(action[0]) - 70) / 100, True, False, {}


def test_wide_actions_are_scaled_said_and_learned(tmp_path: Path) -> None:
    config = {**SMALL, "runner.num_envs": 32, "ppo.horizon": 32, "ppo.minibatch_size": 256, "ppo.learning_rate": 1e-2}
    heard = Heard()
    run = hotloop.train(f"{HERE}:Wide", steps=16384, config=config, home=tmp_path, callbacks=[heard])
    assert "actions are scaled from [-1, 1] to [-100, 100] (wrap.scale_actions)" in heard.notes
    agent = hotloop.load(run.path)
    assert abs(agent.act([0.0])[0] - 70) < 20
    assert abs(agent.act(np.zeros((3, 1), np.float32))[2, 0] - 70) < 20
    assert hotloop_json("export", str(run.path), "--onnx", str(tmp_path / "wide.onnx"))[-1]["event"] == "end"
    import onnxruntime

    model = onnxruntime.InferenceSession((tmp_path / "wide.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    (action,) = model.run(["action"], {"observation": np.zeros((1, 1), np.float32)})
    np.testing.assert_allclose(action, [agent.act([0.0])], rtol=1e-4)
    # The same policy in the same env, played by other commands.
    assert run.evaluation is not None
    assert hotloop_json("eval", str(run.path), "--episodes", "4")[-1]["mean"] == pytest.approx(run.evaluation.mean)


def test_actions_stay_as_they_are_where_that_is_set(tmp_path: Path) -> None:
    heard = Heard()
    config = {**SMALL, "wrap.scale_actions": False}
    run = hotloop.train(f"{HERE}:Wide", steps=128, config=config, home=tmp_path, callbacks=[heard])
    assert not any("scaled" in note for note in heard.notes)
    assert abs(hotloop.load(run.path).act([0.0])[0]) < 5


class Measured(gymnasium.Env[Any, int]):
    """Reports the end of its episode in info, and offers a level."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def __init__(self, level: float = 1.0, reports: bool = True) -> None:
        self._level = level
        self._reports = reports

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        self._count += 1
        over = self._count == 4
        # Only the info of an episode's last step counts.
        info = {"is_success": over, "cost": float(self._count)} if self._reports else {}
        return np.zeros(1, np.float32), self._level, over, False, info


def test_infos_of_an_episodes_end_are_recorded_with_success(tmp_path: Path) -> None:
    heard = Heard()
    config = {**SMALL, "track.infos": ["cost", "absent"]}
    run = hotloop.train(f"{HERE}:Measured", steps=256, config=config, home=tmp_path, callbacks=[heard])
    assert [record.metrics for record in heard.records] == [{"is_success": 1.0, "cost": 4.0}] * 2
    assert run.evaluation is not None
    assert run.evaluation.metrics == {"is_success": 1.0, "cost": 4.0}
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert {"is_success": 1.0, "cost": 4.0} in [line.get("metrics") for line in lines]
    assert hotloop_json("eval", str(run.path), "--episodes", "4")[-1]["metrics"] == {"is_success": 1.0, "cost": 4.0}


class NoInfo(Measured):
    """Returns nothing for info, as some envs do, or a success that is no number."""

    def step(self, action: int) -> Any:
        *result, _ = super().step(action)
        return *result, None if self._count < 4 else {"is_success": "much"}


def test_infos_that_nobody_asked_for_do_no_harm(tmp_path: Path) -> None:
    heard = Heard()
    run = hotloop.train(f"{HERE}:NoInfo", steps=128, config=SMALL, home=tmp_path, callbacks=[heard])
    assert run.return_mean == 4.0
    assert (heard.records[-1].faults, heard.records[-1].metrics) == (0, {})


def test_an_env_without_success_has_no_such_metric(tmp_path: Path) -> None:
    heard = Heard()
    config = {**SMALL, "env.reports": False}
    run = hotloop.train(f"{HERE}:Measured", steps=128, config=config, home=tmp_path, callbacks=[heard])
    assert heard.records[-1].metrics == {}
    assert run.evaluation is not None
    assert run.evaluation.metrics == {}


def test_evaluations_have_an_env_of_their_own(tmp_path: Path) -> None:
    config = {**SMALL, "train.evaluate_env.level": 5.0, "env.reports": False}
    run = hotloop.train(f"{HERE}:Measured", steps=128, config=config, home=tmp_path)
    assert run.return_mean == 4.0
    assert run.evaluation is not None
    assert run.evaluation.mean == 20.0
    assert hotloop_json("eval", str(run.path), "--episodes", "2")[-1]["mean"] == 20.0
    assert hotloop_json("eval", str(run.path), "env.level=2", "--episodes", "2")[-1]["mean"] == 8.0


def test_a_native_env_is_evaluated_with_other_options(tmp_path: Path) -> None:
    config = {"train.evaluate_env.max_steps": 7, "train.evaluate_episodes": 4}
    run = hotloop.train("cartpole", steps=2048, until=None, config=config, home=tmp_path)
    assert run.evaluation is not None
    assert run.evaluation.length_max <= 7
    with pytest.raises(ConfigError, match=r"train.evaluate_env.max_step'. Did you mean 'train.evaluate_env.max_steps'"):
        hotloop.train("cartpole", steps=64, config={"train.evaluate_env.max_step": 7}, home=tmp_path)


def test_rewards_are_clipped_in_training_only(tmp_path: Path) -> None:
    config = {**SMALL, "env.level": 3.0, "wrap.clip_reward": 1.0, "wrap.time_limit": 2, "wrap.frame_stack": 2}
    run = hotloop.train(f"{HERE}:Measured", steps=128, config=config, home=tmp_path)
    assert run.return_mean == 2.0
    assert run.evaluation is not None
    assert run.evaluation.mean == 6.0
    agent = hotloop.load(run.path)
    assert agent.wrap == {"frame_stack": 2, "time_limit": 2}
    assert agent.act([0.0, 0.0]) in (0, 1)
    assert hotloop_json("play", str(run.path), "--episodes", "1")[-1]["event"] == "end"


@pytest.mark.parametrize(
    ("env", "config", "words"),
    [
        ("cartpole", {"wrap.frame_skip": 4}, "cartpole is native: set runner.action_repeat instead"),
        ("cartpole", {"wrap.grey_scale": True}, "wrap.grey_scale is for Python envs, and cartpole is native"),
        ("cartpole", {"wrap.normalise_observation": True}, "Did you mean 'ppo.normalize_observations'"),
        (f"{HERE}:Measured", {"runner.action_repeat": 2}, "runner.action_repeat is for native envs: set wrap.frame_sk"),
        (f"{HERE}:Measured", {"wrap.grey_scale": True}, "wrap.grey_scale needs RGB images"),
        (f"{HERE}:Measured", {"wrap.frame_stack": 1}, "wrap.frame_stack is 1: expected greater than or equal to 2"),
    ],
)
def test_wrappers_that_cannot_be_are_refused(env: str, config: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        hotloop.train(env, steps=64, config={**SMALL, **config}, home=tmp_path)


class Camera(Measured):
    """Shows an image inside a dict, with a text."""

    observation_space = spaces.Dict(  # type: ignore[assignment]
        {"camera": spaces.Box(0, 255, (20, 20, 3), np.uint8), "speed": spaces.Box(-1, 1, (1,)), "task": spaces.Text(9)}
    )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: int) -> Any:
        return self.observation_space.sample(), *super().step(action)[1:]


def test_what_a_policy_does_not_see_of_a_dict_is_said(tmp_path: Path) -> None:
    heard = Heard()
    hotloop.train(f"{HERE}:Camera", steps=128, config=SMALL, home=tmp_path, callbacks=[heard])
    assert any("does not see the texts in the observation: task" in note for note in heard.notes)
    assert any("images inside the observation are flattened (camera 20x20x3)" in note for note in heard.notes)
