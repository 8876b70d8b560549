"""A small Gymnasium env that may kill the process in which it is stepped."""

import os
import signal
from typing import Any

import gymnasium
import numpy as np


class Deadly(gymnasium.Env[Any, Any]):
    """Ten steps; with `deadly` the third one is the last of the process."""

    observation_space = gymnasium.spaces.Discrete(11)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, deadly: bool = False) -> None:
        self._deadly, self._at = deadly, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Begin."""
        super().reset(seed=seed)
        self._at = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Count, and reward the second action."""
        self._at += 1
        if self._deadly and self._at == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._at, float(np.float32(action)), self._at == 10, False, {}


gymnasium.register("Deadly-v0", f"{__name__}:Deadly")
