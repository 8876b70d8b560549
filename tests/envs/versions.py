"""An env that shows which NumPy it runs with."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Versions(gymnasium.Env[Any, Any]):
    """Two numbers: NumPy's version."""

    observation_space = spaces.Box(0, 100, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self._seen(), {}

    def _seen(self) -> Any:
        return np.array(np.__version__.split(".")[:2], np.float32)

    def step(self, action: Any) -> Any:
        return self._seen(), 1.0, False, False, {}
