"""Synchronous successive halving: all trials pause at a rung, and the best of them go on from where they stopped."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hotloop.sweeps import keys
from hotloop.sweeps.definition import Definition
from hotloop.sweeps.plans import Asking, Known
from hotloop.sweeps.pruning import rung_steps
from hotloop.sweeps.results import Trial, trial_of
from hotloop.sweeps.samplers import Observation, Sampler
from hotloop.sweeps.states import States
from hotloop.sweeps.tasks import Result, Segment, Task


class HalvingPlan:
    """Rungs with a barrier after each."""

    def __init__(self, definition: Definition, sampler: Sampler, prior: Sequence[Observation]) -> None:
        self._definition = definition
        self._asking = Asking(definition, sampler, prior)
        self._states = States()
        self._rungs = rungs(definition)
        self._rung = 0
        self._waiting = list(range(definition.trials))
        self._members = list(self._waiting)
        self._segments: dict[int, Segment] = {}

    def next(self, known: Known) -> tuple[Task, bytes | None] | None:
        """Return the next trial of this rung, or after the barrier the first of the next one."""
        if not self._waiting:
            if self._rung + 1 == len(self._rungs) or not self._has_all(known):
                return None
            self._members = promoted(self._definition, known, self._members, self._rung)
            self._waiting = list(self._members)
            self._rung += 1
            if not self._waiting:
                return None
        index = self._waiting[0]
        if self._rung == 0 and not self._ask(index, known):
            return None
        self._waiting.pop(0)
        segment = self._segments[index]._replace(steps=self._rungs[self._rung])
        is_last = self._rung + 1 == len(self._rungs)
        task = Task(f"rung/{index}/{self._rung}", (segment,), returns_state=not is_last)
        return task, self._states.take(f"rung/{index}/{self._rung - 1}")

    def _ask(self, index: int, known: Known) -> bool:
        settings = self._asking.ask(index, known, lambda each: f"rung/{each}/0")
        if settings is None:
            return False
        seed = keys.train_seed("train", self._definition.sweep.seed, index, 0)
        self._segments[index] = Segment(settings, seed)
        return True

    def _has_all(self, known: Known) -> bool:
        return all(f"rung/{index}/{self._rung}" in known for index in self._members)

    def keep_state(self, task: Task, state: bytes) -> None:
        """Keep the state in which a trial pauses."""
        self._states.put(task.id, state)

    def is_done(self, known: Known) -> bool:
        """Return whether the last rung's trials have their results."""
        is_last = self._rung + 1 == len(self._rungs) or not self._members
        return is_last and not self._waiting and self._has_all(known)


def rungs(definition: Definition) -> list[int]:
    """Return the steps of each rung, the whole training as the last."""
    steps = definition.base.train.steps
    assert steps is not None
    return [*rung_steps(definition.sweep.prune, steps), steps]


def promoted(definition: Definition, known: Known, members: Sequence[int], rung: int) -> list[int]:
    """Return the trials that go on from a rung: the best 1/factor, at least one."""

    def value(index: int) -> float:
        found = trial_of(index, known[f"rung/{index}/{rung}"]).value
        return -math.inf if found is None else found

    ended = [index for index in members if value(index) > -math.inf]
    count = max(1, len(members) // definition.sweep.prune.factor)
    return sorted(sorted(ended, key=lambda index: (-value(index), index))[:count])


def halving_trials(definition: Definition, known: Known) -> list[Trial]:
    """Return the trials of the rungs that have results so far."""
    from dataclasses import replace

    steps, found = rungs(definition), []
    for index in range(definition.trials):
        lines: list[Result] = []
        while (line := known.get(f"rung/{index}/{len(lines)}")) is not None:
            lines.append(line)
        if not lines:
            continue
        trial = trial_of(index, lines[-1])
        passed = tuple(
            (at, line["evaluations"][0]["value"]) for at, line in zip(steps, lines, strict=False) if line["evaluations"]
        )
        if trial.state == "completed" and len(lines) < len(steps):
            trial = replace(trial, state="pruned", why=f"paused at {steps[len(lines) - 1]} steps, not among the best")
        found.append(
            replace(
                trial,
                rungs=passed,
                seconds=sum(line["seconds"] for line in lines),
                cpu=sum(line["cpu"] for line in lines),
            )
        )
    return found
