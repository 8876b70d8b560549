"""Trials made again from their lines: as run folders, as checkpoints, or to compare them bit for bit."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.errors import TrainingError
from hotloop.sweeps.plans import segments_of
from hotloop.sweeps.results import Trial
from hotloop.sweeps.tasks import Result, Rung, Task, blank_result
from hotloop.sweeps.trial import run_task
from hotloop.sweeps.warm import Warm

if TYPE_CHECKING:
    from hotloop.sweeps.definition import Definition
    from hotloop.training.callbacks import Callback

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Remade:
    """A trial that was made again."""

    index: int
    differences: tuple[str, ...]
    """How it differs from its line; empty if it is the same."""
    result: Result


def remake_trial(
    definition: Definition, trial: Trial, progress: Progress = lambda steps: None, *, save_to: Path | None = None
) -> Remade:
    """Train a trial again from nothing, and compare weights, values and rungs with its line."""
    if trial.state == "refused":
        raise TrainingError(f"trial {trial.index} was refused, nothing was trained: {trial.why}")
    segments = segments_of(trial)
    rungs = () if trial.lineage else tuple(Rung(steps) for steps, _ in trial.rungs)
    if rungs and definition.sweep.prune.waits:
        # It paused at the end of its last rung.
        segments = (segments[0]._replace(steps=rungs[-1].steps),)
    elif rungs and trial.state == "pruned" and not trial.values:
        # It ended in the middle, at its last rung: an impossible cut ends it there again.
        rungs = (*rungs[:-1], Rung(rungs[-1].steps, float("inf")))
    races = tuple((seed, None) for seed in trial.seeds[1:])
    task = Task(f"trial/{trial.index}", segments, rungs, races)
    warm = Warm()
    try:
        result, _ = run_task(task, definition, warm, progress, save_to=save_to)
    finally:
        warm.shut_down()
    values = tuple(each["value"] for each in result["evaluations"])
    found = []
    if result["state"] == "failed" and trial.state != "failed":
        found.append(f"it failed: {result['why']}")
    elif result["sha256"] != trial.sha256:
        found.append(f"weights: SHA-256 was {trial.sha256}, is {result['sha256']}")
    if not found and values != trial.values:
        found.append(f"values: were {list(trial.values)}, are {list(values)}")
    return Remade(trial.index, tuple(found), result)


def make_run(task: Task, definition: Definition, home: str, progress: Progress) -> Result:
    """Train a trial again as a run with a folder, unless that is there; return its line for the journal."""
    from hotloop.training.callbacks import Callback, ProgressReport
    from hotloop.training.lookup import find_run
    from hotloop.training.runs import read_status
    from hotloop.training.start import begin, resume

    class Watching(Callback):
        def progress(self, report: ProgressReport) -> None:
            progress(report.steps)

    start, busy = time.perf_counter(), time.process_time()
    assert task.run is not None
    segment = task.segments[0]
    line = blank_result(task.id, segment.settings, seeds=[segment.seed], run=task.run)
    callbacks: list[Callback] = [Watching()]
    try:
        if len(task.segments) > 1:
            raise TrainingError("a member of a population has no run: 'hotloop sweep remake' makes its checkpoint")
        try:
            path = find_run(Path(home) / "runs" / task.run, home)
            is_done = read_status(path).get("status") == "completed"
            trainer = None if is_done else resume(path, home=home, callbacks=callbacks, trust=True)
        except TrainingError:
            config = definition.config(segment.settings, segment.seed)
            trainer = begin(config, name=task.run, home=home, callbacks=callbacks, trust=True)
            path = trainer.path
        if trainer is not None:
            trainer.run()
        line["sha256"] = _newest_hash(path)
    except Exception as error:
        line |= {"state": "failed", "why": f"{type(error).__name__}: {error}"}
    return line | {
        "seconds": round(time.perf_counter() - start, 6),
        "cpu": round(time.process_time() - busy, 6),
    }


def _newest_hash(run: Path) -> str:
    from hotloop.training.checkpoint import POLICY, checkpoint_paths

    paths = checkpoint_paths(run / "checkpoints")
    return hashlib.sha256((paths[-1] / POLICY).read_bytes()).hexdigest()
