"""Listening to a run: stop worrying about losses, watch what the policy does.

Run it with `python examples/callback.py`; a callback overrides only the events it cares about.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import hotloop
from hotloop.training import Callback

if TYPE_CHECKING:
    from hotloop.training.callbacks import CheckpointReport, EvaluationReport, IterationReport, StartReport
    from hotloop.training.runs import Run


class Watch(Callback):
    """Prints a line per record, and keeps the best evaluation."""

    def __init__(self) -> None:
        self.best = float("-inf")

    def start(self, report: StartReport) -> None:
        """Before the first iteration."""
        print(f"{report.run}: {report.parameters} weights, {report.num_threads} threads, learner {report.learner}")

    def iteration(self, report: IterationReport) -> None:
        """Every `track.interval` iterations."""
        split = report.time
        print(
            f"{report.steps:>8} steps  return {report.return_recent:6.1f}  entropy {report.losses['entropy']:.2f}  "
            f"kl {report.losses['kl']:.4f}  {report.steps_per_second:,.0f} steps/s  "
            f"(env {split.env / split.total:.0%}, inference {split.inference / split.total:.0%}, "
            f"learn {split.learn / split.total:.0%})"
        )
        if report.statistics is not None:
            print(f"         how often each action was taken: {report.statistics.actions['shares'][0]}")

    def evaluation(self, report: EvaluationReport) -> None:
        """After each evaluation on fresh envs."""
        found = report.evaluation
        print(f"         evaluation: {found.mean:.1f} ({found.low:.1f} to {found.high:.1f})")
        self.best = max(self.best, found.mean)

    def checkpoint(self, report: CheckpointReport) -> None:
        """After each checkpoint."""
        print(f"         checkpoint: {report.path.name}{' (best)' if report.is_best else ''}")

    def end(self, run: Run) -> None:
        """However the run ended."""
        print(f"ended by {run.ended} after {run.steps} steps; best evaluation {self.best:.1f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        settings = {"track.interval": 32, "track.statistics_every": 64, "train.evaluate_every": 64}
        hotloop.train("cartpole", steps=200_000, config=settings, callbacks=[Watch()], home=home, progress=False)
