"""One task of a sweep, from its settings to its result: sessions without folders, recorders or stores.

A session trains through its segments, is evaluated at rungs and ends itself where a cut says so. Nothing here knows
other trials: cuts were fixed when the task was made, so that the result depends on the task alone.
"""

from __future__ import annotations

import hashlib
import math
import resource
import time
from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, Any

from hotloop.errors import ConfigError, EnvError, TrainingError, WorkersFailedError
from hotloop.sweeps.cost import modelled_cost
from hotloop.sweeps.state import restore, snapshot
from hotloop.sweeps.tasks import PrunedError, Result, Rung, Task, blank_result
from hotloop.text import measured
from hotloop.training.plan import PACE
from hotloop.training.runs import now

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.policies.evaluation import Evaluation
    from hotloop.sweeps.definition import Definition
    from hotloop.sweeps.warm import Warm
    from hotloop.training.session_protocol import TrainingSession

Progress = Callable[[int], object]
"""Called with the steps so far, several times a second."""


class _DivergedError(Exception):
    """Gradients that are not finite."""


def run_task(
    task: Task,
    definition: Definition,
    warm: Warm,
    progress: Progress,
    state: bytes | None = None,
    *,
    save_to: Path | None = None,
) -> tuple[Result, bytes | None]:
    """Train and evaluate; return the line of the journal, and the final state if the task asks for it.

    Args:
        task: What to train.
        definition: The sweep's.
        warm: Opens sessions.
        progress: Called with the steps so far.
        state: State to start from.
        save_to: Folder for a checkpoint of the first seed.
    """
    start, busy = time.perf_counter(), time.process_time()
    result = blank_result(task.id, task.settings)
    final = None
    try:
        final = _train(task, definition, warm, progress, state, result, save_to)
        for seed, cut in task.races:
            reached = fmean(each["value"] for each in result["evaluations"])
            if cut is not None and reached < cut:
                raise PrunedError(f"{measured(reached)} after {len(result['seeds'])} seeds, below {measured(cut)}")
            again = Task(task.id, (task.segments[0]._replace(seed=seed),))
            _train(again, definition, warm, progress, None, result)
    except PrunedError as pruned:
        result["state"], result["why"] = "pruned", str(pruned)
    except ConfigError as error:
        result["state"], result["why"] = "refused", str(error)
    except (_DivergedError, EnvError, TrainingError, WorkersFailedError, FloatingPointError) as error:
        result["state"], result["why"] = "failed", str(error)
    except Exception as error:
        # Whatever an env or a module of the user raises ends this trial, not the sweep.
        result["state"], result["why"] = "failed", f"{type(error).__name__}: {error}"
    result |= {
        "seconds": round(time.perf_counter() - start, 6),
        "cpu": round(time.process_time() - busy, 6),
        "memory": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    return result, final


def _train(
    task: Task,
    definition: Definition,
    warm: Warm,
    progress: Progress,
    state: bytes | None,
    result: Result,
    save_to: Path | None = None,
) -> bytes | None:
    """Train one seed through all segments, and add its evaluation to the result."""
    result["seeds"].append(task.segments[0].seed)
    for number, segment in enumerate(task.segments):
        config = definition.config(segment.settings, segment.seed)
        target = segment.steps or config.train.steps
        assert target is not None
        is_last = number == len(task.segments) - 1
        with warm.session(config) as session:
            if state is not None:
                restore(session, state, is_fork=segment.is_fork)
            try:
                for rung in task.rungs if is_last else ():
                    if rung.steps < target:
                        _advance(session, rung.steps, progress)
                        _judge(session, definition, rung, result)
                _advance(session, target, progress)
            finally:
                if is_last:
                    # All steps since the start, so that a trial that went on elsewhere counts the same.
                    result["steps"] += session.counters.steps
                    result["cost"] += modelled_cost(session, session.counters.steps)
            if is_last:
                result["evaluations"].append(_evaluate(session, definition))
                result["sha256"] = result["sha256"] or hashlib.sha256(session.policy_bytes()).hexdigest()
                if save_to is not None:
                    session.save(save_to, now())
            state = snapshot(session) if task.returns_state or not is_last else None
    return state


def _judge(session: TrainingSession, definition: Definition, rung: Rung, result: Result) -> None:
    """Evaluate at a rung; raise `PrunedError` if even the upper bound is below the cut."""
    found = _evaluate(session, definition)
    result["rungs"].append([rung.steps, found["value"], found["low"], found["high"]])
    if rung.cut is not None and found["high"] < rung.cut:
        result["sha256"] = hashlib.sha256(session.policy_bytes()).hexdigest()
        raise PrunedError(f"{measured(found['value'])} at {rung.steps} steps, below {measured(rung.cut)}")


def _advance(session: TrainingSession, target: int, progress: Progress) -> None:
    """Train to a number of steps, or until `train.until` is confirmed."""
    counters, train, every = session.counters, session.config.train, session.config.track.interval
    while counters.steps < target and not counters.solved:
        done = counters.iterations
        count = math.ceil((target - counters.steps) / session.steps_per_iteration)
        if (change := session.next_change()) is not None:
            count = min(count, change - done)
        if train.until is not None:
            count = min(count, every - done % every)
        session.advance(count, PACE)
        progress(counters.steps)
        if counters.since.dropped:
            raise _DivergedError(f"a gradient was not finite before step {counters.steps}")
        if train.until is not None and counters.iterations % every == 0:
            _look_whether_solved(session, train.until)


def _look_whether_solved(session: TrainingSession, until: float) -> None:
    """Confirm `train.until` as the trainer does: after records, by an evaluation."""
    session.gather()
    counters, episodes = session.counters, session.config.train.until_episodes
    if counters.episodes >= max(counters.confirm_after, episodes) and session.promises(until):
        counters.solved = session.evaluate().mean >= until
        counters.confirm_after = counters.episodes + episodes


def _evaluate(session: TrainingSession, definition: Definition) -> dict[str, Any]:
    """Return the value of the objective, with its interval over episodes."""
    metric = definition.sweep.metric
    if metric == "steps":
        steps = session.counters.steps
        # An unsolved trial counts as twice its limit, so that solving late beats not solving.
        value = -float(steps if session.counters.solved else 2 * steps)
        return {"value": value, "low": value, "high": value, "solved": session.counters.solved}
    found: Evaluation = session.evaluate()
    if metric == "return":
        if not math.isfinite(found.mean):
            raise _DivergedError("the mean return is not finite")
        return {"value": found.mean, "low": found.low, "high": found.high}
    if metric not in found.metrics:
        known = ", ".join(found.metrics) or "none"
        raise TrainingError(f"sweep.objective is {metric!r}: evaluations of this env have the metrics {known}")
    value = found.metrics[metric]
    return {"value": value, "low": value, "high": value}
