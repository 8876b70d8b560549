"""Scaling of continuous actions: policies decide in [-1, 1], whatever the bounds of the env's own action space.

A policy begins with a standard deviation of about 1; without scaling it would never reach most of Box(-100, 100), and
would nearly always exceed Box(-0.01, 0.01). Dimensions without finite bounds, and choices beside real numbers, stay as
they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hotloop.envs.spec import ContinuousAction, HybridAction

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hotloop.envs.spec import Action


def unit_bounds(own: ContinuousAction | HybridAction) -> ContinuousAction | HybridAction:
    """Return the action space that a policy decides in: -1 to 1 wherever the env's own bounds are finite.

    >>> unit_bounds(ContinuousAction((-100.0, 0.0), (100.0, float("inf"))))
    ContinuousAction(low=(-1.0, 0.0), high=(1.0, inf))
    """
    scaled = _scaled(own)
    low, high = (tuple(np.where(scaled, unit, end).tolist()) for unit, end in ((-1.0, own.low), (1.0, own.high)))
    return replace(own, low=low, high=high)


def _scaled(own: Action) -> NDArray[np.bool_]:
    low, high = np.array(own.low), np.array(own.high)
    scaled: NDArray[np.bool_] = np.isfinite(low) & np.isfinite(high) & (low < high)
    return scaled


class ActionScale:
    """The map from a policy's actions to those of the env."""

    def __init__(self, own: Action) -> None:
        low, high = (np.array(end, np.float64) for end in (own.low, own.high))
        scaled = _scaled(own)
        choices = np.array(own.choices, np.float64)
        with np.errstate(invalid="ignore"):
            factor = np.where(scaled, (high - low) / 2, 1.0)
            offset = np.where(scaled, (high + low) / 2, 0.0)
        self.factor = np.concatenate([np.ones_like(choices), factor]).astype(np.float32)
        self.offset = np.concatenate([np.zeros_like(choices), offset]).astype(np.float32)
        self._low = np.concatenate([np.zeros_like(choices), low]).astype(np.float32)
        self._high = np.concatenate([choices - 1, high]).astype(np.float32)

    def __call__(self, actions: ArrayLike) -> NDArray[np.float32]:
        """Return the env's actions, within its bounds."""
        scaled = np.asarray(actions, np.float32) * self.factor + self.offset
        inside: NDArray[np.float32] = np.clip(scaled, self._low, self._high)
        return inside
