"""Gymnasium's spaces for the spaces of an env spec."""

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from hotloop.envs.spec import (
    Action,
    BytesObservation,
    ContinuousAction,
    DiscreteAction,
    DiscreteObservation,
    HybridAction,
    MultiDiscreteAction,
    Observation,
)


def observation_space(observation: Observation) -> Space[Any]:
    """Return the observation space of one row."""
    match observation:
        case DiscreteObservation():
            return spaces.Discrete(observation.n)
        case BytesObservation():
            return spaces.Box(0, observation.high, observation.shape, np.uint8)
        case _:
            low, high = (np.array(end, np.float32) for end in (observation.low, observation.high))
            shape = observation.shape
            return spaces.Box(low.reshape(shape), high.reshape(shape), shape, np.float32)


def action_space(action: Action, start: int = 0) -> Space[Any]:
    """Return the action space of one row; discrete actions are counted from `start`.

    That of hybrid actions is a Tuple of the choices and the real numbers.
    """
    match action:
        case DiscreteAction():
            return spaces.Discrete(action.n, start=start)
        case MultiDiscreteAction():
            return spaces.MultiDiscrete(list(action.n))
        case HybridAction():
            return spaces.Tuple((spaces.MultiDiscrete(list(action.n)), _real(action)))
        case _:
            return _real(action)


def _real(action: ContinuousAction | HybridAction) -> spaces.Box:
    low, high = (np.array(end, np.float32) for end in (action.low, action.high))
    return spaces.Box(low, high, low.shape, np.float32)


class LegalDiscrete(spaces.Discrete):
    """A discrete space with masks: samples are legal now, but all choices belong to the space."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.legal: NDArray[np.int8] | None = None

    def sample(self, mask: NDArray[np.int8] | None = None, probability: Any = None) -> np.int64:
        """Return a random choice that is legal now, unless another mask or probabilities are given."""
        if mask is None and probability is None:
            mask = self.legal
        return super().sample(mask, probability)
