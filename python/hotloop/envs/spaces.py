"""Gymnasium's spaces for what the core describes."""

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray


def observation_space(observation: dict[str, Any]) -> Space[Any]:
    """What one row sees."""
    match observation["kind"]:
        case "discrete":
            return spaces.Discrete(observation["n"])
        case "bytes":
            return spaces.Box(0, observation["high"], tuple(observation["shape"]), np.uint8)
        case _:
            low, high = (np.array(observation[end], np.float32) for end in ("low", "high"))
            shape = tuple(observation["shape"])
            return spaces.Box(low.reshape(shape), high.reshape(shape), shape, np.float32)


def action_space(action: dict[str, Any]) -> Space[Any]:
    """What one row decides."""
    match action["kind"]:
        case "discrete":
            return spaces.Discrete(action["n"])
        case "multi-discrete":
            return spaces.MultiDiscrete(action["n"])
        case _:
            low, high = (np.array(action[end], np.float32) for end in ("low", "high"))
            return spaces.Box(low, high, low.shape, np.float32)


class LegalDiscrete(spaces.Discrete):
    """The choices of an env with masks: all of them belong to the space, but those drawn at random are legal now."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.legal: NDArray[np.int8] | None = None

    def sample(self, mask: NDArray[np.int8] | None = None, probability: Any = None) -> np.int64:
        """A random choice; what is legal now is the mask, unless another one or probabilities are given."""
        if mask is None and probability is None:
            mask = self.legal
        return super().sample(mask, probability)
