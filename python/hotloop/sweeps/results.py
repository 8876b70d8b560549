"""Results of a sweep: its trials, their ranking, the Pareto front, and what confirmation says of the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hotloop.policies.evaluation import Evaluation
from hotloop.sweeps.samplers import Observation
from hotloop.sweeps.space import Settings, Space
from hotloop.sweeps.tasks import Result


@dataclass(frozen=True)
class Trial:
    """A trial, or a member of a population, as far as it came."""

    index: int
    settings: Settings
    state: str
    """`completed`, `pruned`, `failed` or `refused`."""
    why: str | None
    values: tuple[float, ...]
    """Value of the objective for each seed."""
    rungs: tuple[tuple[int, float], ...]
    steps: int
    cost: float
    seconds: float
    cpu: float
    memory: int
    seeds: tuple[int, ...]
    sha256: str | None
    confirmed: tuple[float, ...] = ()
    """Values of fresh seeds."""
    lineage: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    """Of a member of a population: its generations, those of its ancestors included."""

    @property
    def value(self) -> float | None:
        """Mean over seeds; None unless the trial came to its end."""
        return math.fsum(self.values) / len(self.values) if self.state == "completed" and self.values else None

    @property
    def confirmation(self) -> Evaluation | None:
        """Mean and 95 % interval over fresh seeds."""
        if not self.confirmed:
            return None
        return Evaluation.of(np.array(self.confirmed), np.zeros(len(self.confirmed)), {})

    def observation(self, *, with_cost: bool) -> Observation:
        """Return the trial as samplers see it."""
        values = () if self.value is None else (self.value, -self.cost) if with_cost else (self.value,)
        return Observation(self.index, self.settings, self.state, values, self.rungs)


def trial_of(index: int, line: Result) -> Trial:
    """Return the trial of a line of the journal."""
    return Trial(
        index=index,
        settings=line["settings"],
        state=line["state"],
        why=line["why"],
        values=tuple(each["value"] for each in line["evaluations"]),
        rungs=tuple((steps, value) for steps, value, *_ in line["rungs"]),
        steps=line["steps"],
        cost=line["cost"],
        seconds=line["seconds"],
        cpu=line["cpu"],
        memory=line["memory"],
        seeds=tuple(line["seeds"]),
        sha256=line["sha256"],
    )


def ranking(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that came to their end, the best first: confirmed ones by their fresh seeds, before others."""
    ended = [each for each in trials if each.value is not None]

    def order(trial: Trial) -> tuple[bool, float, int]:
        found = trial.confirmation
        value = trial.value if found is None else found.mean
        assert value is not None
        return found is not None, value, -trial.index

    return sorted(ended, key=order, reverse=True)


def pareto_front(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that no other beats in value at the same or a lower cost, by cost."""
    front: list[Trial] = []
    for trial in sorted(
        (each for each in trials if each.value is not None), key=lambda each: (each.cost, -(each.value or 0.0))
    ):
        assert trial.value is not None
        if not front or trial.value > (front[-1].value or -math.inf):
            front.append(trial)
    return front


def importance(space: Space, trials: Sequence[Trial]) -> dict[str, float]:
    """Return how much of the value's variance each dimension explains by itself, in shares of their sum.

    A dimension's values are cut into up to eight bins of equal counts; the variance of the bins' means is compared
    with what chance would give.
    """
    ended = [each for each in trials if each.value is not None]
    values = np.array([each.value for each in ended])
    found: dict[str, float] = {}
    for dimension in space.dimensions:
        present = [i for i, each in enumerate(ended) if dimension.is_in(each.settings)]
        units = np.array([dimension.distribution.unit(dimension.value_in(ended[i].settings)) for i in present])
        found[dimension.name] = _explained(units, values[present])
    total = sum(found.values())
    return {name: share / total if total else 0.0 for name, share in found.items()}


def _explained(units: Any, values: Any) -> float:
    if len(values) < 8 or not values.std():
        return 0.0
    # Ranks: a few terrible trials must not decide.
    ranks = values.argsort().argsort().astype(float)
    bins = np.array_split(units.argsort(kind="stable"), min(8, len(values) // 4))
    between = sum(len(each) * (ranks[each].mean() - ranks.mean()) ** 2 for each in bins)
    share = between / ((ranks - ranks.mean()) ** 2).sum()
    by_chance = (len(bins) - 1) / (len(values) - 1)
    return float(max(0.0, (share - by_chance) / (1.0 - by_chance)))
