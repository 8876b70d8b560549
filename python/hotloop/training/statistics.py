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
    """Return the share of each choice, and mean and standard deviation of each continuous dimension."""
    counts = rollout["weight"] > 0
    found: dict[str, Any] = {}
    if sizes := action.choices:
        taken = rollout["action"][counts]
        columns = taken.reshape(len(taken), len(sizes)).T
        found["shares"] = [
            (np.bincount(column, minlength=size) / max(1, len(taken))).tolist()
            for column, size in zip(columns, sizes, strict=True)
        ]
    if action.low:
        exact = rollout["continuous_action" if sizes else "action"][counts].astype(np.float64)
        moments = (exact.mean(axis=0), exact.std(axis=0)) if len(exact) else (exact[0:0], exact[0:0])
        found["mean"], found["std"] = (moment.tolist() for moment in moments)
    return found
