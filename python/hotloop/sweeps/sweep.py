"""A sweep: its phases, run to the end by worker processes, and what came of them.

The driver asks plans for tasks, gives them to workers, and journals results. What it does depends on when results
arrive; what comes out does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from hotloop import _core
from hotloop.config.loader import given_keys
from hotloop.errors import TrainingError
from hotloop.sweeps.definition import Definition
from hotloop.sweeps.halving_sync import HalvingPlan, halving_trials, rungs
from hotloop.sweeps.journal import SweepFolder
from hotloop.sweeps.pbt import PbtPlan, generations, pbt_trials
from hotloop.sweeps.plans import Known, Plan, TrialsPlan, confirm_plan, keep_plan
from hotloop.sweeps.results import Trial, importance, pareto_front, ranking, trial_of
from hotloop.sweeps.samplers import make_sampler
from hotloop.sweeps.settings import PBT
from hotloop.sweeps.tasks import Result, Task, blank_result
from hotloop.sweeps.workers import Finished, Lost, Moved, Workers
from hotloop.training.interrupts import Interrupts
from hotloop.training.runs import home

# Seconds without news after which views and requests to end are looked at.
_TICK: Final = 0.1
# The line that ends a complete sweep's journal.
END: Final = "end"
# Trials that failed, all of them, before a sweep gives up.
_MOST_FAILURES: Final = 16


class Sweep:
    """A sweep in its folder: its definition, and its results so far."""

    def __init__(self, folder: SweepFolder, *, trust: bool = False) -> None:
        self.folder = folder
        self.definition: Definition = folder.definition(trust=trust)
        self.results: dict[str, Result] = folder.results()

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.folder.name

    @property
    def path(self) -> Path:
        """The sweep's folder."""
        return self.folder.path

    @property
    def trials(self) -> list[Trial]:
        """All trials that have results, by index; those that were confirmed with the values of fresh seeds."""
        return collect_trials(self.definition, self.results)

    @property
    def best(self) -> Trial | None:
        """The winner: the confirmed trial with the highest mean over fresh seeds."""
        return best_of(self.definition, self.trials)

    @property
    def front(self) -> list[Trial]:
        """Trials that no other beats in value at the same or a lower cost."""
        return pareto_front(self.trials)

    @property
    def importance(self) -> dict[str, float]:
        """Shares of the dimensions in the variance of the values."""
        return importance(self.definition.space, self.trials)

    @property
    def kept(self) -> dict[int, str]:
        """Runs of the best trials, by index."""
        found = {task: line for task, line in self.results.items() if task.startswith("keep/")}
        return {int(task.split("/")[1]): line["run"] for task, line in found.items() if line["state"] == "completed"}

    def overrides(self, trial: Trial | None = None) -> dict[str, Any]:
        """Return the settings of a trial, of the winner by default, with those fixed by the sweep, for `train`."""
        trial = trial or self.best
        if trial is None:
            raise TrainingError(
                f"the sweep {self.name!r} has no confirmed trial yet: 'hotloop sweep --resume {self.name}' goes on"
            )
        dump = self.definition.base.model_dump()
        given = (key.partition(".") for key in sorted(given_keys(self.definition.base)) if key != "env.name")
        return {f"{part}.{key}": dump[part][key] for part, _, key in given} | trial.settings

    @property
    def is_complete(self) -> bool:
        """Whether all of its phases are done."""
        return END in self.results

    def _trials_plan(self) -> Plan:
        definition = self.definition
        if definition.sampler == PBT:
            return PbtPlan(definition)
        sampler = make_sampler(
            definition.sampler,
            definition.space,
            definition.sweep.seed,
            objectives=len(definition.sweep.objective),
            grid=definition.sweep.grid,
        )
        kind = HalvingPlan if definition.sweep.prune.waits else TrialsPlan
        return kind(definition, sampler, self.folder.prior())

    def _keep_plan(self, trials: Sequence[Trial]) -> Plan:
        # Members of a population have no run: their recipe is their lineage.
        kept = [] if self.definition.sampler == PBT else trials
        return keep_plan(self.name, self.definition, kept)


def collect_trials(definition: Definition, known: Known) -> list[Trial]:
    """Return the trials that results tell of, by index; those that were confirmed with the values of fresh seeds."""
    if definition.sampler == PBT:
        found = pbt_trials(definition, known)
    elif definition.sweep.prune.waits:
        found = halving_trials(definition, known)
    else:
        lines = ((index, known.get(f"trial/{index}")) for index in range(definition.trials))
        found = [trial_of(index, line) for index, line in lines if line is not None]
    return [replace(trial, confirmed=_confirmed(definition, known, trial.index)) for trial in found]


def _confirmed(definition: Definition, known: Known, index: int) -> tuple[float, ...]:
    """Return the values of a trial with all fresh seeds; none if one of them failed or is missing."""
    values = []
    for number in range(definition.sweep.confirm.seeds):
        line = known.get(f"confirm/{index}/{number}")
        if line is None or line["state"] != "completed":
            return ()
        values.append(line["evaluations"][0]["value"])
    return tuple(values)


def best_of(definition: Definition, trials: Sequence[Trial]) -> Trial | None:
    """Return the winner: the confirmed trial with the highest mean over fresh seeds; any if none is to be confirmed."""
    ranked = ranking(trials)
    if definition.sweep.confirm.top:
        ranked = [trial for trial in ranked if trial.confirmed]
    return next(iter(ranked), None)


def planned_results(definition: Definition) -> int:
    """Return the number of results of trials: one each, or one per rung or generation that a trial goes through."""
    count = definition.trials
    if definition.sampler == PBT:
        return count * generations(definition)
    if not definition.sweep.prune.waits:
        return count
    total = 0
    for _ in rungs(definition):
        total += count
        count = max(1, count // definition.sweep.prune.factor)
    return total


class Listener(Protocol):
    """Follows a sweep."""

    def begin(self, sweep: Sweep, slots: int) -> None:
        """The sweep starts, or goes on."""

    def phase(self, name: str) -> None:
        """A phase starts: `trials`, `confirm` or `keep`."""

    def finished(self, result: Result) -> None:
        """A task has its result."""

    def moved(self, task: Task, steps: int) -> None:
        """A task made progress."""

    def note(self, text: str) -> None:
        """Something to tell the user."""

    def tick(self) -> None:
        """Some time has passed."""


def home_of_sweep(path: Path) -> Path:
    """Return the home that a sweep's folder lies in, which its runs are made in, too."""
    folder = path.absolute().parent
    return folder.parent if folder.name == "sweeps" else home()


def run_sweep(
    sweep: Sweep,
    *,
    slots: int | None,
    listener: Listener,
    interrupts: Interrupts | None = None,
    store: str | Path | None = None,
) -> bool:
    """Run a sweep to its end; return False if it was interrupted before.

    Args:
        sweep: A sweep that is new, or was interrupted.
        slots: Trials at once; by default as many as there are cores, at most the sweep's lag.
        listener: Follows it.
        interrupts: Requests to end.
        store: Store of the runs of kept trials.
    """
    definition = sweep.definition
    slots = min(slots or _core.usable_cores(), definition.sweep.lag)
    interrupts = interrupts or Interrupts()
    with_states = definition.sampler == PBT or definition.sweep.prune.waits
    sweep.folder.open()
    try:
        # Another process may have gone on with it since it was read.
        sweep.results = sweep.folder.results()
        listener.begin(sweep, slots)
        place = home_of_sweep(sweep.path)
        with Workers(definition, slots, place, store, with_states=with_states) as workers:
            phases: tuple[tuple[str, Callable[[], Plan]], ...] = (
                ("trials", sweep._trials_plan),
                ("confirm", lambda: confirm_plan(definition, sweep.trials)),
                ("keep", lambda: sweep._keep_plan(sweep.trials)),
            )
            for name, make in phases:
                plan = make()
                listener.phase(name)
                if not _run_phase(sweep, plan, workers, listener, interrupts):
                    return False
                if name == "trials" and not ranking(sweep.trials):
                    raise TrainingError(f"no trial of the sweep came to its end; {_first_reason(sweep)}")
            for note in _other_weights(sweep):
                listener.note(note)
            if not sweep.is_complete:
                _journal(sweep, listener, blank_result(END, {}))
    finally:
        sweep.folder.close()
    return True


def _run_phase(sweep: Sweep, plan: Plan, workers: Workers, listener: Listener, interrupts: Interrupts) -> bool:
    """Run the tasks of a plan; return False if that was interrupted."""
    known = sweep.results
    lost: dict[str, int] = {}
    shown = time.monotonic()
    while not plan.is_done(known):
        if interrupts.asked:
            return False
        while workers.has_room and (found := plan.next(known)) is not None:
            if found[0].id not in known:
                workers.submit(*found)
        for event in workers.events(_TICK):
            match event:
                case Finished(task, result, state):
                    if state is not None:
                        plan.keep_state(task, state)
                    _journal(sweep, listener, result)
                case Moved(task, steps):
                    listener.moved(task, steps)
                case Lost(task, state, steps, why):
                    if lost.get(task.id) == steps >= 0:
                        facts = {"state": "failed", "why": f"{why}, twice at the same place"}
                        _journal(sweep, listener, blank_result(task.id, task.settings, **facts))
                        continue
                    if steps >= 0:
                        lost[task.id] = steps
                        listener.note(f"{task.id}: {why}; it is repeated")
                    workers.submit(task, state)
        if time.monotonic() - shown >= _TICK:
            shown = time.monotonic()
            listener.tick()
    return True


def _journal(sweep: Sweep, listener: Listener, result: Result) -> None:
    sweep.results[result["task"]] = result
    sweep.folder.append(result)
    listener.finished(result)
    lines = sweep.results.values()
    if len(lines) >= _MOST_FAILURES and all(line["state"] == "failed" for line in lines):
        raise TrainingError(f"all of the first {len(sweep.results)} trials failed; {_first_reason(sweep)}")


def _other_weights(sweep: Sweep) -> list[str]:
    """Return a note for each kept run whose weights are not those of its trial, as Python envs may cause."""
    hashes = {trial.index: trial.sha256 for trial in sweep.trials}
    return [
        f"the run {run} has other weights than trial {index}: the env or the learner does not repeat exactly"
        for index, run in sweep.kept.items()
        if sweep.results[f"keep/{index}"]["sha256"] != hashes[index]
    ]


def _first_reason(sweep: Sweep) -> str:
    reasons = [line["why"] for line in sweep.results.values() if line["why"]]
    return f"the first reason: {reasons[0]}" if reasons else "none says why"
