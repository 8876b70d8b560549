"""Runs with controllers, in processes that can be killed at chosen moments."""

import os
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import hotloop
from hotloop.training import Callback

PYTHON_ENV = "tests.training.controlled:Climb"
COMMON: dict[str, Any] = {
    "runner.num_envs": 8,
    "runner.num_workers": 1,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "policy.hidden": [16],
    "train.evaluate_every": 5,
    "train.evaluate_episodes": 6,
    "train.checkpoint_every": 4,
    "train.until": None,
    "track.interval": 3,
}
RUNS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "control.schedules": [
            {"key": "env.gravity", "start": 9.8, "end": 15.0, "begin_step": 400, "end_step": 2000},
            {"key": "reward.reward", "start": 1.0, "end": 0.5, "end_step": 1500},
        ],
        "control.stages": [
            {"name": "short", "env": {"max_steps": 20}, "until": 5.0},
            {"name": "long", "env": {"max_steps": 200}},
        ],
    },
    PYTHON_ENV: {
        "env.goal": 3,
        "env.slope": 0.0,
        "control.schedules": [{"key": "env.slope", "start": 0.0, "end": 1.0, "begin_step": 400, "end_step": 2000}],
        "control.stages": [
            {"name": "near", "env": {"goal": 3}, "reward": {"reward": 2.0}, "until": -1000.0},
            {"name": "far", "env": {"goal": 7}},
        ],
    },
}
STEPS = 8 * 16 * 22


class Climb(gymnasium.Env[Any, Any]):
    """A walk to a goal that options of `reset` move; its whole state can be read and set."""

    observation_space = spaces.Box(-100, 100, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, goal: int, slope: float) -> None:
        self._state = np.array([0.0, goal, slope, 0.0])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        options = options or {}
        goal, slope = options.get("goal", self._state[1]), options.get("slope", self._state[2])
        self._state = np.array([self.np_random.integers(-2, 1), goal, slope, 0.0])
        return self._see(), {}

    def step(self, action: Any) -> Any:
        at, goal, slope, steps = self._state
        self._state = np.array([at + 2 * int(action) - 1, goal, slope, steps + 1])
        reached = self._state[0] >= goal
        return self._see(), float(reached) - 0.1 * slope, bool(reached), bool(steps + 1 >= 30), {}

    def _see(self) -> Any:
        return self._state[:3].astype(np.float32)

    def get_state(self) -> dict[str, Any]:
        return {"state": self._state.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._state = np.array(state["state"])


class Death(Callback):
    """Kills its process when an event has come so many times."""

    def __init__(self, event: str, count: int) -> None:
        self._left = count
        setattr(self, event, self._strike)

    def _strike(self, report: object) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(env: str, home: str, moment: str = "") -> None:
    """Begin the run or go on with it; die when an event has come so many times (`EVENT:COUNT`)."""
    event, _, count = moment.partition(":")
    callbacks = [Death(event, int(count))] if moment else []
    if (Path(home) / "runs" / "run" / "config.yaml").exists():
        hotloop.train(resume="run", home=home, callbacks=callbacks)
    else:
        config = {**COMMON, **RUNS[env]}
        hotloop.train(env, steps=STEPS, config=config, name="run", home=home, callbacks=callbacks)
