"""An env that waits most of the time, and may hold much memory, as envs that talk to other programs do."""

from __future__ import annotations

import time
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces

# Seconds of a step, of which four fifths are spent waiting.
_STEP: Final = 0.005
_WAITING: Final = 0.8


class SleepingEnv(gymnasium.Env[Any, Any]):
    """Random observations; a step takes 5 ms, of which it computes for one.

    Args:
        megabytes: Memory that the env holds.
    """

    observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def __init__(self, megabytes: int = 0) -> None:
        self._held = np.ones(megabytes << 17)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        self._count = 0
        return self.np_random.random(4, np.float32), {}

    def step(self, action: Any) -> Any:
        """Wait, then compute."""
        time.sleep(_WAITING * _STEP)
        end = time.thread_time() + (1 - _WAITING) * _STEP
        while time.thread_time() < end:
            pass
        self._count += 1
        return self.np_random.random(4, np.float32), 0.0, self._count >= 100, False, {}
