"""The suite `tune`: which workers, envs per worker and batch size are fastest for a Python env on this machine.

Envs are stepped with random legal actions, groups as they come back, as training does it. One number is changed at a
time, doubled as long as that pays: nobody wants a hundred processes for a gain that is noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final

import numpy as np

from hotloop.bench.actions import legal_actions, random_actions
from hotloop.errors import EnvError
from hotloop.runners.processes import ProcessRunner

# Less than this is not worth another process or a larger batch.
GAIN: Final = 1.05
_MOST_ENVS: Final = 1024


@dataclass(frozen=True)
class Shape:
    """Distribution of a runner's envs over workers and batches."""

    workers: int
    envs_per_worker: int
    groups_per_worker: int = 1
    groups_per_batch: int = 1

    @property
    def num_envs(self) -> int:
        """Total number of envs."""
        return self.workers * self.envs_per_worker

    def config(self) -> dict[str, int]:
        """Config keys of this shape."""
        return {
            "num_envs": self.num_envs,
            "num_workers": self.workers,
            "groups_per_worker": self.groups_per_worker,
            "groups_per_batch": self.groups_per_batch,
        }

    def __str__(self) -> str:
        groups = self.workers * self.groups_per_worker
        return (
            f"{_counted(self.workers, 'worker')} of {_counted(self.envs_per_worker, 'env')}, "
            f"{self.groups_per_batch} of {_counted(groups, 'group')} a batch"
        )


@dataclass(frozen=True)
class Trial:
    """A shape with its steps per second."""

    shape: Shape
    rate: float


@dataclass
class Tuning:
    """Trials, the best of them, and the reasons."""

    best: Trial
    trials: list[Trial] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def tune(
    env: str,
    options: Mapping[str, Any],
    *,
    cores: int,
    most_workers: int,
    seconds: float,
    worker_python: str | None = None,
    progress: Callable[[Shape], object] = lambda shape: None,
) -> Tuning:
    """Search for the fastest shape; raises `EnvError` if the env cannot be made."""

    def rate(shape: Shape) -> float:
        progress(shape)
        return measure_shape(env, options, shape, seconds=seconds, worker_python=worker_python)

    first = Shape(min(cores, most_workers), 1, groups_per_batch=1)
    found = Tuning(Trial(first, rate(first)))
    found.trials.append(found.best)

    def climb(change: Callable[[Shape], Shape | None]) -> int:
        """Apply a change as long as it pays; return how often it did."""
        taken = 0
        while (shape := change(found.best.shape)) is not None:
            trial = Trial(shape, rate(shape))
            found.trials.append(trial)
            if trial.rate < found.best.rate * GAIN:
                break
            found.best = trial
            taken += 1
        return taken

    def more_envs(shape: Shape) -> Shape | None:
        more = replace(shape, envs_per_worker=2 * shape.envs_per_worker)
        return more if more.num_envs <= _MOST_ENVS else None

    def more_workers(shape: Shape) -> Shape | None:
        more = replace(shape, workers=2 * shape.workers)
        return more if more.workers <= most_workers and more.num_envs <= _MOST_ENVS else None

    def fewer_workers(shape: Shape) -> Shape | None:
        return replace(shape, workers=shape.workers // 2) if shape.workers > 1 else None

    def two_groups(shape: Shape) -> Shape | None:
        many = shape.groups_per_worker == 1 and shape.envs_per_worker > 1
        return replace(shape, groups_per_worker=2) if many else None

    def larger_batch(shape: Shape) -> Shape | None:
        more = replace(shape, groups_per_batch=2 * shape.groups_per_batch)
        return more if more.groups_per_batch <= shape.workers * shape.groups_per_worker else None

    grown = climb(more_envs)
    added = climb(more_workers)
    if added:
        grown += climb(more_envs)
    removed = 0 if added else climb(fewer_workers)
    split = climb(two_groups)
    batched = climb(larger_batch)
    found.reasons = _reasons(
        found.best.shape,
        cores,
        most_workers,
        grown=grown,
        added=added,
        removed=removed,
        split=split,
        batched=batched,
    )
    return found


def _reasons(
    shape: Shape, cores: int, most_workers: int, *, grown: int, added: int, removed: int, split: int, batched: int
) -> list[str]:
    count, groups = _counted(shape.workers, "worker"), shape.workers * shape.groups_per_worker
    if removed:
        workers = "its steps are so short that waking more costs more than it gives"
    elif added:
        workers = "its steps wait more than they compute, so that workers overlap"
    elif 2 * shape.workers > most_workers:
        workers = "more were not allowed"
    else:
        workers = f"more gave less than {GAIN - 1:.0%}, its steps keep a core busy"
    envs = "the cost of waking a worker is shared by their steps" if grown else "more gave no more steps"
    split_words = "it steps one while the policy decides for the other" if split else "two gave no more"
    if groups == 1:
        batches = "there is only one group"
    else:
        batches = "larger ones cost less per row" if batched else "waiting for more of them gave no more"
    return [
        f"{count} on {_counted(cores, 'core')}: {workers}",
        f"{_counted(shape.envs_per_worker, 'env')} per worker: {envs}",
        f"{_counted(shape.groups_per_worker, 'group')} per worker: {split_words}",
        f"batches of {shape.groups_per_batch} of {_counted(groups, 'group')}: {batches}",
    ]


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def measure_shape(
    env: str, options: Mapping[str, Any], shape: Shape, *, seconds: float, worker_python: str | None = None
) -> float:
    """Steps per second of rows that decide, after a warm-up of a quarter of the time."""
    with ExitStack() as stack:
        runner = ProcessRunner(
            env,
            shape.num_envs,
            num_workers=shape.workers,
            groups_per_worker=shape.groups_per_worker,
            groups_per_batch=shape.groups_per_batch,
            options=options,
            autoreset_mode="same_step",
            worker_python=worker_python,
        )
        stack.callback(runner.close)
        _, info = runner.reset(seed=0)
        heard: list[str] = []
        runner.listen(lambda fault: heard.append(fault.report()))
        rng = np.random.default_rng(0)
        rows = [runner.group_rows(group) for group in range(runner.num_groups)]
        drawn = random_actions(runner.single_action_space, runner.num_envs, 8)
        turn = 0

        def actions(group: int, mask: Any) -> Any:
            if mask is None:
                return drawn[turn % 8][rows[group]]
            return legal_actions(runner.single_action_space, mask, rng)

        mask = info.get("action_mask")
        for group in range(runner.num_groups):
            runner.send(actions(group, None if mask is None else mask[rows[group]]), group)
        counting, steps = perf_counter() + seconds / 4, 0
        start = counting
        while (now := perf_counter()) < counting + seconds or not steps:
            batch = runner.recv()
            turn += 1
            if heard:
                raise EnvError(f"the env fails with random actions: {heard[0]}")
            if now < counting:
                start = perf_counter()
            else:
                steps += int(np.sum(batch.info["valid"])) if "valid" in batch.info else len(batch.rows)
            first = 0
            for group in batch.groups:
                last = first + rows[group].stop - rows[group].start
                mask = batch.info["action_mask"][first:last] if "action_mask" in batch.info else None
                runner.send(actions(group, mask), group)
                first = last
        return steps / (perf_counter() - start)
