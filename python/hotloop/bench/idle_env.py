"""An env that does next to nothing, for suites in which something else about a Python env matters."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class IdleEnv(gymnasium.Env[Any, Any]):
    """Shows random numbers; an action is its own reward, and an episode has 100 steps."""

    observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode."""
        super().reset(seed=seed)
        self._count = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        """Counts."""
        self._count += 1
        return self._seen(), float(action), self._count >= 100, False, {}

    def _seen(self) -> Any:
        return self.np_random.random(4, np.float32)
