"""The interface between the trainer and an algorithm, and the choice of the algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hotloop.config import Config
    from hotloop.episodes.best_replays import Top
    from hotloop.policies.evaluation import Evaluation
    from hotloop.ppo.collector import Heartbeat
    from hotloop.runners.health import WorkerHealth
    from hotloop.runners.reports import Fault
    from hotloop.training.callbacks import IterationReport
    from hotloop.training.checkpoint import Arrays, Checkpoint
    from hotloop.training.control import Controller, Decision
    from hotloop.training.counters import Counters
    from hotloop.training.evaluation import Progress


@dataclass(frozen=True)
class Summary:
    """A session in a few lines, for people."""

    learner: str
    """The implementation, and why it was chosen."""
    work: str
    """The work of one iteration, in a line."""
    parameters: int
    """Number of trained parameters."""
    num_threads: int
    notes: tuple[str, ...] = ()
    """Notices, such as a slower fallback."""


class TrainingSession(Protocol):
    """A running algorithm: it collects, learns and counts, and is saved to and restored from checkpoints."""

    config: Config
    counters: Counters
    steps_per_iteration: int
    """Upper bound of the steps of one iteration."""
    top: Top | None
    """Best episodes of the last evaluation; `None` if nothing was played."""

    def summary(self) -> Summary:
        """Return a summary for people."""

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next iteration."""

    def next_change(self) -> int | None:
        """Return the next iteration whose settings differ from this one's; `None` if there is none."""

    def set_threads(self, count: int) -> None:
        """Change the number of threads, if that changes no result."""

    def workers(self) -> tuple[WorkerHealth, ...]:
        """Return the health of worker processes; empty if there are none."""

    def take_faults(self) -> list[Fault]:
        """Return the faults of envs and workers since the last call."""

    def promises(self, until: float) -> bool:
        """Return whether an evaluation is likely to confirm that this mean return is reached."""

    def advance(self, count: int, seconds: float, heartbeat: Heartbeat | None = None) -> None:
        """Run up to `count` iterations, which share their settings; none starts after `seconds`.

        `heartbeat` is called with the steps so far while an iteration waits for Python envs.
        """

    def gather(self) -> None:
        """Add the episodes and faults counted since the last call."""

    def record(self, *, with_statistics: bool) -> IterationReport:
        """Return the record of the iterations since the last one."""

    def controllers(self) -> list[Controller]:
        """Return the controllers that the config asks for."""

    def apply(self, decision: Decision) -> None:
        """Set what a controller decided."""

    def evaluate(self, progress: Progress | None = None) -> Evaluation:
        """Play the run's evaluation episodes, or compute the expected return exactly."""

    def manifest(self, date: str) -> dict[str, Any]:
        """Return the description of the policy that a checkpoint would have now."""

    def save(self, folder: Path, date: str) -> Path:
        """Write a checkpoint."""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint."""

    def policy_bytes(self) -> bytes:
        """Return the contents that a checkpoint's `policy.safetensors` would have now."""

    def save_batch(self, path: Path) -> None:
        """Save the data of the last gradient steps, for debugging."""

    def close(self) -> None:
        """Stop threads and processes."""


def open_session(
    config: Config,
    *,
    first: tuple[Arrays, Arrays] | None = None,
    opponents: Sequence[Checkpoint] = (),
    attempt: int = 0,
    debug: bool = False,
) -> TrainingSession:
    """Return a session of the algorithm that `train.algorithm` names, at the start of a run."""
    if config.train.algorithm != "ppo":
        from hotloop.training.tabular_session import TabularSession

        return TabularSession(config, first=first, attempt=attempt)
    from hotloop.training.session import Session

    return Session(config, first=first, opponents=opponents, attempt=attempt, debug=debug)
