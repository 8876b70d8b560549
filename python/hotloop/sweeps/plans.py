"""Phases of a sweep: which task comes next, as a function of the results so far.

A plan hands out every task in order, also those whose results are known from an earlier, interrupted session: the
driver skips these. It never looks at clocks, slots or the order in which results arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from hotloop.sweeps import keys
from hotloop.sweeps.definition import Definition
from hotloop.sweeps.pruning import cuts, race_cuts, rung_steps
from hotloop.sweeps.results import Trial, ranking, trial_of
from hotloop.sweeps.samplers import Observation, Sampler
from hotloop.sweeps.space import Settings
from hotloop.sweeps.tasks import Result, Segment, Task

Known = Mapping[str, Result]
"""Results by task."""


class Plan(Protocol):
    """A phase of a sweep."""

    def next(self, known: Known) -> tuple[Task, bytes | None] | None:
        """Return the next task with the state that it starts from; None until there are more results, or at the end."""

    def keep_state(self, task: Task, state: bytes) -> None:
        """Take the final state of a task that asked for it."""

    def is_done(self, known: Known) -> bool:
        """Return whether every task has its result."""


class _Stateless:
    def keep_state(self, task: Task, state: bytes) -> None:
        """Nothing: its tasks start from nothing."""


class Asking:
    """The settings of trials in order, each drawn from the results up to `lag` before it."""

    def __init__(self, definition: Definition, sampler: Sampler, prior: Sequence[Observation]) -> None:
        self._definition, self._sampler = definition, sampler
        self.prefix: list[Observation] = list(prior)
        self.values: list[tuple[float, ...]] = []
        """Values for each seed of the trials of the prefix."""
        self.pending: list[tuple[int, Settings]] = []

    def ask(self, index: int, known: Known, task: Callable[[int], str]) -> Settings | None:
        """Return the settings of the next trial; None until the results that it sees are there.

        `task` returns the task of a trial whose result others see.
        """
        sweep = self._definition.sweep
        while self.pending and self.pending[0][0] <= index - sweep.lag:
            line = known.get(task(self.pending[0][0]))
            if line is None:
                return None
            ended = trial_of(self.pending.pop(0)[0], line)
            self.prefix.append(ended.observation(with_cost=sweep.has_cost))
            self.values.append(ended.values)
        # Known trials are asked for again: samplers keep state. The journal has the last word.
        recorded = known[task(index)]["settings"] if task(index) in known else None
        drawn = self._sampler.ask(self.prefix, self.pending, keys.generator("ask", sweep.seed, index))
        settings = drawn if recorded is None else recorded
        self.pending.append((index, settings))
        return settings


class TrialsPlan(_Stateless):
    """All trials, each from its start to its end."""

    def __init__(self, definition: Definition, sampler: Sampler, prior: Sequence[Observation]) -> None:
        self._definition = definition
        self._asking = Asking(definition, sampler, prior)
        self._asked = 0
        self._ended = 0

    def next(self, known: Known) -> tuple[Task, bytes | None] | None:
        """Return the next trial."""
        definition, sweep, index = self._definition, self._definition.sweep, self._asked
        if index >= definition.trials:
            return None
        settings = self._asking.ask(index, known, _trial)
        if settings is None:
            return None
        self._asked += 1
        seeds = [keys.train_seed("train", sweep.seed, index, number) for number in range(sweep.seeds)]
        steps = settings.get("train.steps", definition.base.train.steps)
        assert isinstance(steps, int)
        rungs = cuts(sweep.prune, rung_steps(sweep.prune, steps, index), self._asking.prefix)
        races = race_cuts(self._asking.values, sweep.seeds) if sweep.seeds > 1 else []
        task = Task(
            _trial(index),
            (Segment(settings, seeds[0]),),
            rungs,
            tuple(zip(seeds[1:], races, strict=True)),
        )
        return task, None

    def is_done(self, known: Known) -> bool:
        """Return whether every trial has its result."""
        while _trial(self._ended) in known:
            self._ended += 1
        return self._asked == self._definition.trials <= self._ended


class ListPlan(_Stateless):
    """Tasks that depend on nothing of each other."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._next = 0

    def next(self, known: Known) -> tuple[Task, bytes | None] | None:
        """Return the next one."""
        if self._next == len(self._tasks):
            return None
        self._next += 1
        return self._tasks[self._next - 1], None

    def is_done(self, known: Known) -> bool:
        """Return whether all have results."""
        return all(task.id in known for task in self._tasks)


def confirm_plan(definition: Definition, trials: Sequence[Trial]) -> ListPlan:
    """Return the training of the best trials with fresh seeds, the same ones for each of them."""
    confirm, tasks = definition.sweep.confirm, []
    for trial in ranking(trials)[: confirm.top]:
        for number in range(confirm.seeds):
            segments = [
                segment._replace(seed=keys.train_seed("confirm", definition.sweep.seed, number, part))
                for part, segment in enumerate(segments_of(trial))
            ]
            tasks.append(Task(f"confirm/{trial.index}/{number}", tuple(segments)))
    return ListPlan(tasks)


def keep_plan(name: str, definition: Definition, trials: Sequence[Trial]) -> ListPlan:
    """Return the making of run folders for the best trials."""
    return ListPlan(
        [
            Task(f"keep/{trial.index}", segments_of(trial), run=f"{name}-{trial.index}")
            for trial in ranking(trials)[: definition.sweep.keep]
        ]
    )


def segments_of(trial: Trial) -> tuple[Segment, ...]:
    """Return the training that makes a trial, or a member of a population, from nothing."""
    if not trial.lineage:
        return (Segment(trial.settings, trial.seeds[0]),)
    return tuple(Segment(each["settings"], each["seed"], each["steps"], each["is_fork"]) for each in trial.lineage)


def _trial(index: int) -> str:
    return f"trial/{index}"
