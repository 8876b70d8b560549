"""Population-based training: after each generation the worst members become changed copies of the best.

Generations are barriers, copies are exact (weights, optimiser, envs, counters), and every decision has a key. So the
lineage of a member is a recipe: it makes the member's weights from nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hotloop.sweeps import keys
from hotloop.sweeps.definition import Definition
from hotloop.sweeps.plans import Known
from hotloop.sweeps.results import Trial, trial_of
from hotloop.sweeps.samplers import random_settings
from hotloop.sweeps.space import Settings
from hotloop.sweeps.states import States
from hotloop.sweeps.tasks import Segment, Task

Lineage = tuple[Segment, ...]


class PbtPlan:
    """Generations of a population."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._states = States()
        self._generation = 0
        self._lineages = first_lineages(definition)
        self._sources: list[int] = list(range(len(self._lineages)))
        self._next = 0

    def next(self, known: Known) -> tuple[Task, bytes | None] | None:
        """Return the next member of this generation, or after the barrier the first of the next one."""
        if self._next == len(self._lineages):
            if self._generation + 1 == generations(self._definition) or not self._has_all(known):
                return None
            self._sources, self._lineages = evolve(self._definition, known, self._lineages, self._generation)
            self._states.clear(but={_task(member, self._generation) for member in self._sources})
            self._generation += 1
            self._next = 0
        member = self._next
        self._next += 1
        lineage = self._lineages[member]
        is_last = self._generation + 1 == generations(self._definition)
        state = None
        if self._generation:
            state = self._states.get(_task(self._sources[member], self._generation - 1))
        segments = lineage[-1:] if state is not None else lineage
        return Task(_task(member, self._generation), segments, returns_state=not is_last), state

    def _has_all(self, known: Known) -> bool:
        return all(_task(member, self._generation) in known for member in range(len(self._lineages)))

    def keep_state(self, task: Task, state: bytes) -> None:
        """Keep the state of a member at the end of a generation."""
        self._states.put(task.id, state)

    def is_done(self, known: Known) -> bool:
        """Return whether the last generation has its results."""
        last = self._generation + 1 == generations(self._definition)
        return last and self._next == len(self._lineages) and self._has_all(known)


def generations(definition: Definition) -> int:
    """Return the number of generations."""
    assert definition.base.train.steps is not None
    return math.ceil(definition.base.train.steps / definition.sweep.pbt.interval)


def first_lineages(definition: Definition) -> list[Lineage]:
    """Return the members of the first generation."""
    sweep = definition.sweep
    return [
        (
            Segment(
                random_settings(definition.space, sweep.seed, member),
                keys.train_seed("pbt", sweep.seed, member, 0),
                _end(definition, 0),
            ),
        )
        for member in range(sweep.pbt.population)
    ]


def evolve(
    definition: Definition, known: Known, lineages: list[Lineage], generation: int
) -> tuple[list[int], list[Lineage]]:
    """Return for each member of the next generation the one that it continues or copies, and its lineage."""
    sweep, pbt = definition.sweep, definition.sweep.pbt

    def value(member: int) -> float:
        found = trial_of(member, known[_task(member, generation)]).value
        return -math.inf if found is None else found

    ranked = sorted(range(len(lineages)), key=lambda member: (-value(member), member))
    count = max(1, int(len(lineages) * pbt.quantile))
    best, worst = [member for member in ranked[:count] if value(member) > -math.inf], set(ranked[-count:])
    # A member that failed is always replaced.
    worst |= {member for member in ranked if value(member) == -math.inf}
    sources, grown = [], []
    for member, lineage in enumerate(lineages):
        key = ("pbt", sweep.seed, member, generation + 1)
        end = _end(definition, generation + 1)
        if member in worst and best:
            source = best[keys.integer(*key, "source") % len(best)]
            settings = explore(definition, lineages[source][-1].settings, key)
            new = Segment(settings, keys.train_seed(*key), end, is_fork=True)
            sources.append(source)
            grown.append((*lineages[source], new))
        else:
            sources.append(member)
            grown.append((*lineage, lineage[-1]._replace(steps=end, is_fork=False)))
    return sources, grown


def explore(definition: Definition, settings: Settings, key: tuple[object, ...]) -> Settings:
    """Return changed settings: each is multiplied by a factor within its bounds, or drawn again."""
    pbt = definition.sweep.pbt
    found: Settings = {}
    for dimension in definition.space.dimensions:
        distribution, value = dimension.distribution, dimension.value_in(settings)
        own = (*key, dimension.name)
        if distribution.kind == "choice" or keys.uniform(*own, "resample") < pbt.resample:
            redraw = distribution.kind != "choice" or keys.uniform(*own, "resample") < pbt.resample
            value = distribution.value(keys.uniform(*own, "draw")) if redraw else value
        else:
            factor = pbt.factors[keys.integer(*own, "factor") % len(pbt.factors)]
            coordinate = distribution.coordinate(value)
            assert coordinate is not None
            low, high = distribution.bounds
            if distribution.kind == "pow2":
                coordinate += 1 if factor > 1 else -1
            elif distribution.is_discrete:
                # At least one: 2 * 0.8 would round back to 2.
                coordinate = (
                    max(coordinate + 1, round(coordinate * factor))
                    if factor > 1
                    else min(coordinate - 1, round(coordinate * factor))
                )
            else:
                coordinate *= factor
            value = distribution.at(min(max(coordinate, low), high))
        found |= dimension.settings(value)
    return found


def pbt_trials(definition: Definition, known: Known) -> list[Trial]:
    """Return the members as of the last whole generation, each with its lineage."""
    lineages, generation = first_lineages(definition), 0
    members = range(len(lineages))
    while (
        generation + 1 < generations(definition)
        and all(_task(member, generation) in known for member in members)
        and all(_task(member, generation + 1) in known for member in members)
    ):
        _, lineages = evolve(definition, known, lineages, generation)
        generation += 1
    found = []
    for member, lineage in enumerate(lineages):
        line = known.get(_task(member, generation))
        if line is not None:
            past = [known.get(_task(member, each)) for each in range(generation + 1)]
            spent = [each for each in past if each is not None]
            found.append(
                replace(
                    trial_of(member, line),
                    seeds=(lineage[0].seed,),
                    rungs=tuple(
                        (_end(definition, number), each["evaluations"][0]["value"])
                        for number, each in enumerate(spent)
                        if each["evaluations"]
                    ),
                    seconds=sum(each["seconds"] for each in spent),
                    cpu=sum(each["cpu"] for each in spent),
                    lineage=tuple(each._asdict() for each in lineage),
                )
            )
    return found


def _end(definition: Definition, generation: int) -> int:
    steps = definition.base.train.steps
    assert steps is not None
    return min(steps, (generation + 1) * definition.sweep.pbt.interval)


def _task(member: int, generation: int) -> str:
    return f"member/{member}/{generation}"
