"""Statistics of weights, gradients and actions, at the interval that `track.statistics_every` sets."""

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
    """Return statistics of the weights, of the gradient over the last rollout, and of the actions in it."""
    gradients, _ = learner.gradient(settings)
    return Statistics(
        weights=summaries(learner.arrays()),
        gradients=summaries(gradients),
        actions=actions(learner.rollout(), action),
    )


def summaries(arrays: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, float]]:
    """Return norm, mean, standard deviation and largest absolute value of each array."""
    result = {}
    for name, array in arrays.items():
        exact = array.astype(np.float64)
        result[name] = {
            "norm": float(np.sqrt((exact * exact).sum())),
            "mean": float(exact.mean()),
            "std": float(exact.std()),
            "max": float(np.abs(exact).max()),
        }
    return result


def actions(rollout: Mapping[str, NDArray[Any]], action: Action) -> dict[str, Any]:
    """Return the share of each choice, or mean and standard deviation of each dimension."""
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
