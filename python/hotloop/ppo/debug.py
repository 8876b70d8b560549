"""Iterations in debug mode: part by part, with every array checked for non-finite numbers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.errors import NotFiniteError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hotloop import _core
    from hotloop.ppo.learners import Learner


def iterate_checked(learner: Learner, pool: _core.Pool, settings: dict[str, Any]) -> dict[str, Any]:
    """Run one iteration; the report is that of `Learner.iterate`."""
    start = time.perf_counter()
    iteration = settings["iteration"]
    learner.collect(pool, settings)
    collected = time.perf_counter()
    rollout = learner.rollout()
    check_arrays(rollout, f"the rollout of iteration {iteration}")
    explained = explained_variance(rollout)
    steps = int((rollout["weight"] > 0).sum())
    learning = time.perf_counter()
    report = learner.update(settings)
    learned = time.perf_counter()
    check_arrays(learner.arrays(), f"the weights after iteration {iteration}")
    check_arrays(learner.state(), f"the learner's state after iteration {iteration}")
    return {
        **report,
        "iterations": 1,
        "steps": steps,
        "rows": rollout["reward"].size,
        "explained_variance": explained,
        "seconds_env": 0.0,
        "seconds_inference": collected - start,
        "seconds_learn": learned - learning,
        "seconds_total": (collected - start) + (learned - learning),
    }


def check_arrays(arrays: Mapping[str, NDArray[Any]], where: str) -> None:
    """Raise if an array of floats has an entry that is not finite."""
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            continue
        bad = ~np.isfinite(array)
        if bad.any():
            index = tuple(map(int, np.argwhere(bad)[0]))
            raise NotFiniteError(f"{where}: {name}{list(index)} is {array[index]}, and {int(bad.sum()) - 1} more")


def explained_variance(rollout: Mapping[str, NDArray[Any]]) -> float:
    """Return the fraction of the targets' variance that the values explain."""
    used = rollout["weight"] > 0
    target = rollout["target"][used].astype(np.float64)
    error = target - rollout["value"][:-1][used]
    variance = float(target.var()) if target.size else 0.0
    return 1.0 - float(error.var()) / variance if variance > 0.0 else 0.0
