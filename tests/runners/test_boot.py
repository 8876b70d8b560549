"""The entry point of worker processes."""

import os
import warnings
from typing import Any

import gymnasium as gym
import pytest

import hotloop


class TalkativeEnv(gym.Env[Any, Any]):
    """Warns when it is made, through Python and as native code does."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        warnings.warn("made with an old option", stacklevel=1)
        os.write(2, b"native warning\n")

    def reset(self, **_: Any) -> Any:
        os.write(2, b"reset\n")
        return self.observation_space.sample(), {}

    def step(self, _: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}


def test_warnings_of_making_envs_are_shown_once_per_runner(capfd: pytest.CaptureFixture[str]) -> None:
    envs = hotloop.make_vec(TalkativeEnv, num_envs=6, num_workers=2)
    try:
        envs.reset(seed=0)
    finally:
        envs.close()
    shown = capfd.readouterr().err
    assert shown.count("UserWarning: made with an old option") == 1
    assert shown.count("native warning") == 1
    assert shown.count("reset\n") >= 6, "only warnings of making envs are dropped"
