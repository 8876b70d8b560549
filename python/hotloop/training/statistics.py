"""A closer look at weights, gradients and actions, for intervals the user sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.training.callbacks import Statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.envs.spec import Action
    from hotloop.ppo.learners import Learner


def statistics(learner: Learner, settings: dict[str, Any], action: Action) -> Statistics:
    """Of the weights as they are, the gradient over the last rollout, and the actions in it."""
    gradients, _ = learner.gradient(settings)
    return Statistics(
        weights=summaries(learner.arrays()),
        gradients=summaries(gradients),
        actions=actions(learner.rollout(), action),
    )


def summaries(arrays: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, float]]:
    """Norm, mean, deviation and largest size of each array."""
    told = {}
    for name, array in arrays.items():
        exact = array.astype(np.float64)
        told[name] = {
            "norm": float(np.sqrt((exact * exact).sum())),
            "mean": float(exact.mean()),
            "std": float(exact.std()),
            "max": float(np.abs(exact).max()),
        }
    return told


def actions(rollout: Mapping[str, NDArray[Any]], action: Action) -> dict[str, Any]:
    """How often each choice was taken, or mean and deviation of each amount, where the policy decided."""
    taken = rollout["action"][rollout["weight"] > 0]
    if not action.choices:
        if not len(taken):
            return {"mean": [], "std": []}
        exact = taken.astype(np.float64)
        return {"mean": exact.mean(axis=0).tolist(), "std": exact.std(axis=0).tolist()}
    sizes = action.choices
    columns = taken.reshape(len(taken), len(sizes)).T
    shares = [
        (np.bincount(column, minlength=size) / max(1, len(taken))).tolist()
        for column, size in zip(columns, sizes, strict=True)
    ]
    return {"shares": shares}
