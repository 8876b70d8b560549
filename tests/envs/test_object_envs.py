"""Envs that a program passes as objects: classes, functions, lambdas and instances that no module has."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop.envs import object_envs
from hotloop.errors import ConfigError
from hotloop.training.callbacks import Callback, StartReport
from tests.cli.command import complaint

SMALL = {
    "runner.num_envs": 4,
    "runner.num_workers": 1,
    "ppo.horizon": 8,
    "ppo.minibatch_size": 16,
    "policy.hidden": [8],
    "train.evaluate_episodes": 2,
}


class Notes(Callback):
    def __init__(self) -> None:
        self.notes: tuple[str, ...] = ()

    def start(self, report: StartReport) -> None:
        self.notes = report.notes


def local_class(reward: float) -> Any:
    class Local(gymnasium.Env[Any, int]):
        observation_space = spaces.Box(-1, 1, (2,), np.float32)
        action_space: spaces.Space[Any] = spaces.Discrete(2)

        def __init__(self, bonus: float = 0.0) -> None:
            self._bonus = bonus

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {}

        def step(self, action: int) -> Any:
            return np.zeros(2, np.float32), reward + self._bonus, True, False, {}

    return Local


def test_a_local_class_is_trained_on_and_resumed_by_whoever_has_it(tmp_path: Path) -> None:
    local, heard = local_class(3.0), Notes()
    config = {**SMALL, "env.bonus": 0.5}
    run = hotloop.train(local, steps=64, home=tmp_path, config=config, name="local", callbacks=[heard])
    assert run.evaluation is not None
    assert run.evaluation.mean == 3.5
    assert any("is defined in this program, not in a module" in note for note in heard.notes)
    run = hotloop.train(local, resume="local", steps=128, home=tmp_path)
    assert run.steps == 128
    assert hotloop.load(run.path).act([0.0, 0.0]) in (0, 1)


def test_an_instance_and_a_lambda_are_trained_on(tmp_path: Path) -> None:
    local = local_class(2.0)
    for env, mean in ((local(1.0), 3.0), (lambda: local(2.0), 4.0)):
        run = hotloop.train(env, steps=32, home=tmp_path, config=SMALL)
        assert run.evaluation is not None
        assert run.evaluation.mean == mean


def test_an_instance_is_copied_into_every_env() -> None:
    envs = hotloop.make_vec(gymnasium.make("CartPole-v1"), num_envs=3, num_workers=1)
    assert envs.reset(seed=0)[0].shape == (3, 4)
    envs.close()


def test_an_instance_takes_no_options_and_must_be_copyable() -> None:
    with pytest.raises(ConfigError, match="passed as an object, which takes no options"):
        hotloop.make_vec(local_class(0.0)(), num_envs=1, num_workers=0, options={"bonus": 1})

    class Locked(local_class(0.0)):  # type: ignore[misc]
        def __reduce__(self) -> Any:
            raise TypeError("it has a lock")

    with pytest.raises(TypeError, match=r"cannot be copied to worker processes \(.*it has a lock"):
        hotloop.make_vec(Locked(), num_envs=1)


def test_another_program_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = hotloop.train(local_class(1.0), steps=32, home=tmp_path, config=SMALL, name="local")
    monkeypatch.setattr(object_envs, "_factories", {})
    with pytest.raises(ConfigError, match=r"not in a module: run the code that defines it, then pass it again"):
        hotloop.train(resume="local", home=tmp_path, steps=64)
    assert "is defined in a script, a notebook or a function" in complaint("eval", str(run.path), "--trust")


def test_a_class_of_a_script_is_trained_on(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import gymnasium, hotloop\n"
        "class Mine(gymnasium.Wrapper):\n"
        "    def __init__(self):\n"
        "        super().__init__(gymnasium.make('CartPole-v1'))\n"
        f"run = hotloop.train(Mine, steps=64, config={SMALL!r}, home={str(tmp_path)!r})\n"
        "print(run.steps, run.config.env.name, run.name)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].startswith("64 __main__:Mine Mine-"), done.stderr
