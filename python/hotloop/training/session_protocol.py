"""What the trainer asks of an algorithm, and which one a config names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hotloop.config import Config
    from hotloop.episodes.best_replays import Top
    from hotloop.runners.health import WorkerHealth
    from hotloop.runners.reports import Fault
    from hotloop.training.callbacks import IterationReport
    from hotloop.training.checkpoint import Arrays, Checkpoint
    from hotloop.training.control import Controller, Decision
    from hotloop.training.counters import Counters
    from hotloop.training.evaluation import Evaluation, Progress


@dataclass(frozen=True)
class Introduction:
    """What learns, in words."""

    learner: str
    """Which implementation was taken, and why."""
    work: str
    """What an iteration does, in a line."""
    parameters: int
    """How many numbers are learned."""
    num_threads: int
    notes: tuple[str, ...] = ()
    """What a person should know: that a slower way was taken, say."""


class TrainingSession(Protocol):
    """An algorithm at work: it collects, learns and counts, and goes to a checkpoint and comes back."""

    counters: Counters
    steps_per_iteration: int
    """Upper bound of the steps of one iteration."""
    top: Top | None
    """Best episodes of the last evaluation; `None` if nothing was played."""

    def introduce(self) -> Introduction:
        """What learns, in words."""

    @property
    def learning_rate(self) -> float:
        """Of the next iteration."""

    def next_change(self) -> int | None:
        """The next iteration whose settings differ from this one's; `None` if there is none."""

    def workers(self) -> tuple[WorkerHealth, ...]:
        """Return the health of worker processes; empty if there are none."""

    def take_faults(self) -> list[Fault]:
        """Return the faults of envs and workers since the last call."""

    def promises(self, until: float) -> bool:
        """Whether an evaluation may well confirm that this mean return is reached."""

    def advance(self, count: int, seconds: float) -> None:
        """Makes up to `count` iterations, which share their settings; none begins after these seconds."""

    def gather(self) -> None:
        """Takes over what was counted meanwhile: finished episodes and faults."""

    def record(self, *, with_statistics: bool) -> IterationReport:
        """The record of the iterations since the last one."""

    def controllers(self) -> list[Controller]:
        """Return the controllers that the config asks for."""

    def apply(self, decision: Decision) -> None:
        """Set what a controller decided."""

    def evaluate(self, progress: Progress | None = None) -> Evaluation:
        """Plays the run's evaluation episodes, or does better than playing."""

    def save(self, folder: Path, date: str) -> Path:
        """Writes a checkpoint."""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes to a checkpoint."""

    def policy_bytes(self) -> bytes:
        """What a checkpoint's `policy.safetensors` would hold now."""

    def save_batch(self, path: Path) -> None:
        """Keeps what the last gradient steps were made of, for a look at what went wrong."""

    def close(self) -> None:
        """Ends threads and processes."""


def open_session(
    config: Config,
    *,
    first: tuple[Arrays, Arrays] | None = None,
    opponents: Sequence[Checkpoint] = (),
    attempt: int = 0,
    debug: bool = False,
) -> TrainingSession:
    """What `train.algorithm` stands for, at the start of a run."""
    if config.train.algorithm != "ppo":
        from hotloop.tabular.session import TabularSession

        return TabularSession(config, first=first, attempt=attempt, debug=debug)
    from hotloop.training.session import Session

    return Session(config, first=first, opponents=opponents, attempt=attempt, debug=debug)
