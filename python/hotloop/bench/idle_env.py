"""An env that does almost nothing, for suites that measure the overhead around Python envs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class IdleEnv(gymnasium.Env[Any, Any]):
    """Random observations; the reward is the action; episodes of 100 steps."""

    observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        self._count = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        """Count the step."""
        self._count += 1
        return self._seen(), float(action), self._count >= 100, False, {}

    def _seen(self) -> Any:
        return self.np_random.random(4, np.float32)
