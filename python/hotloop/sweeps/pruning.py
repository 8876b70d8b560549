"""Pruning without talk: the cuts of a trial are fixed when it starts, from the results that it may see."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from hotloop.sweeps.samplers import Observation
from hotloop.sweeps.settings import PruneSettings
from hotloop.sweeps.tasks import Rung

# Results below which the median of a rung says nothing.
_FEWEST = 4


def rung_steps(prune: PruneSettings, most_steps: int, index: int = 0) -> list[int]:
    """Return the steps of a trial's rungs; `hyperband` rotates the first one from trial to trial.

    >>> rung_steps(PruneSettings(by="halving", first=10, factor=3), 100)
    [10, 30, 90]
    """
    if prune.by == "none":
        return []
    found = []
    steps = prune.first
    while steps < most_steps:
        found.append(steps)
        steps *= prune.factor
    if prune.by == "hyperband" and found:
        # The last bracket has no rung: its trials are never pruned.
        return found[index % (len(found) + 1) :]
    return found


def cuts(prune: PruneSettings, steps: Sequence[int], prefix: Sequence[Observation]) -> tuple[Rung, ...]:
    """Return the rungs of a trial with the values below which it ends, from earlier trials' values there."""
    return tuple(Rung(each, cut(prune, _values_at(prefix, each))) for each in steps)


def cut(prune: PruneSettings, values: Sequence[float]) -> float | None:
    """Return the lowest value that goes on; None while there are too few results."""
    if prune.by == "median":
        return median(values) if len(values) >= _FEWEST else None
    kept = len(values) // prune.factor
    return sorted(values, reverse=True)[kept - 1] if kept else None


def race_cuts(prefix_values: Sequence[Sequence[float]], seeds: int) -> list[float | None]:
    """Return, for each seed but the first, the median of earlier trials' means over the seeds before it."""
    found: list[float | None] = []
    for count in range(1, seeds):
        means = [sum(values[:count]) / count for values in prefix_values if len(values) >= count]
        found.append(median(means) if len(means) >= _FEWEST else None)
    return found


def _values_at(prefix: Sequence[Observation], steps: int) -> list[float]:
    return [value for each in prefix for at, value in each.rungs if at == steps]
