"""`hotloop train --seeds`: one run per seed, and a summary of their evaluations."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from hotloop.cli.output import UserError, emit
from hotloop.text import measured, short

if TYPE_CHECKING:
    from hotloop.training.runs import Run

_MOST: Final = 1000


def parse_seeds(text: str) -> list[int]:
    """Parse `0-4` or `1,5,7` or a mixture.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UserError(f"--seeds is {text!r}: expected seeds such as 0-4 or 1,5,7")
        end = int(last or first) + 1
        if end <= int(first) or end - int(first) > _MOST:
            raise UserError(f"--seeds is {text!r}: {part.strip()} must be an ascending range of at most {_MOST} seeds")
        seeds += range(int(first), end)
    if len(set(seeds)) != len(seeds):
        raise UserError(f"--seeds is {text!r}: a seed is given twice, which would repeat the same run")
    return seeds


def train_seeds(seeds: Sequence[int], start: Callable[[int], Run], *, as_json: bool) -> list[Run]:
    """Train a run per seed, one after another, until all are done or one is interrupted; report their results."""
    runs: list[Run] = []
    for seed in seeds:
        runs.append(start(seed))
        if runs[-1].ended == "interrupted":
            break
    summary = summarize(runs)
    if as_json:
        emit("end", **summary)
    else:
        print(format_summary(runs, summary))
    return runs


def summarize(runs: Sequence[Run]) -> dict[str, Any]:
    """Return mean and 95 % interval over seeds of the final evaluation's mean return (without one: of training's)."""
    from hotloop.policies.evaluation import student_quantile

    results = [run.return_mean if run.evaluation is None else run.evaluation.mean for run in runs]
    mean, half = statistics.fmean(results), None
    if len(results) > 1:
        half = student_quantile(len(results) - 1) * statistics.stdev(results) / math.sqrt(len(results))
    return {
        "runs": [run.name for run in runs],
        "seeds": [run.config.train.seed for run in runs],
        "returns": results,
        "solved": sum(run.solved for run in runs),
        "mean": mean,
        "low": None if half is None else mean - half,
        "high": None if half is None else mean + half,
    }


def format_summary(runs: Sequence[Run], summary: dict[str, Any]) -> str:
    """Format a line per seed and the mean over seeds."""
    lines = [
        f"seed {run.config.train.seed}: {measured(result)} after {short(run.steps)} steps ({run.ended}), {run.name}"
        for run, result in zip(runs, summary["returns"], strict=True)
    ]
    interval = ""
    if summary["low"] is not None:
        interval = f" (95 % interval over seeds: {measured(summary['low'])} to {measured(summary['high'])})"
    lines.append(f"mean of {len(runs)} seeds: {measured(summary['mean'])}{interval}, {summary['solved']} solved")
    return "\n".join(lines)
