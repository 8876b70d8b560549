"""What listeners of the trainer are told, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.config import Config
    from hotloop.runners.health import WorkerHealth
    from hotloop.training.evaluation import Evaluation
    from hotloop.training.runs import Run


@dataclass(frozen=True)
class StartReport:
    """A run is about to train."""

    run: str
    """Its name, which is its folder's too."""
    path: Path
    config: Config
    learner: str
    """Which learner was taken, and why."""
    work: str
    """What an iteration does, in a line."""
    parameters: int
    """How many weights the policy has."""
    num_threads: int
    resumed_at: int | None
    """The step of the checkpoint that it goes on from; `None` for a fresh run."""
    journal_bytes: int | None = None
    """The length of the journal when that checkpoint was saved; later events are void."""
    notes: tuple[str, ...] = ()
    """What a person should know: checkpoints that were refused, say."""


@dataclass(frozen=True)
class TimeSplit:
    """Where the seconds went."""

    env: float = 0.0
    inference: float = 0.0
    copy: float = 0.0
    learn: float = 0.0
    rest: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return self.env + self.inference + self.copy + self.learn + self.rest


@dataclass(frozen=True)
class ProgressReport:
    """How far a run has come: told a few times a second, whenever that is, for displays."""

    steps: int
    iterations: int
    episodes: int
    seconds: float
    steps_per_second: float
    """Since the last such report."""
    fraction: float
    """How much of the nearest limit is used up; 0 when none is known."""
    workers: tuple[WorkerHealth, ...] = ()
    """How the worker processes of Python envs are."""


@dataclass(frozen=True)
class Statistics:
    """A closer look at weights, gradients and actions after an iteration."""

    weights: dict[str, dict[str, float]]
    """Of each array: `norm`, `mean`, `std`, `max` (in size)."""
    gradients: dict[str, dict[str, float]]
    """The same of the gradient of the loss over the whole rollout."""
    actions: dict[str, Any]
    """`shares` of the choices of each set, or `mean` and `std` of each amount."""


@dataclass(frozen=True)
class IterationReport:
    """What the last `iterations_in` iterations did: told every `track.interval` iterations.

    Episodes count per row. Returns are NaN while no episode has finished.
    """

    iterations: int
    steps: int
    episodes: int
    seconds: float
    """Of training, earlier parts of a resumed run included."""
    iterations_in: int
    steps_in: int
    seconds_in: float
    steps_per_second: float
    episodes_in: int
    return_mean: float
    return_std: float
    return_min: float
    return_max: float
    return_recent: float
    """The mean over the last `train.until_episodes` episodes."""
    length_mean: float
    terms: dict[str, float]
    metrics: dict[str, float]
    policy_loss: float
    value_loss: float
    entropy: float
    kl: float
    clip_fraction: float
    explained_variance: float
    gradient_norm: float
    epochs: float
    gradient_steps: int
    dropped: int
    """Gradient steps that were left out because they were not finite."""
    faults: int
    """Envs that gave what they must not give, and were reset."""
    learning_rate: float
    entropy_weight: float
    time: TimeSplit
    measures: dict[str, float] = field(default_factory=dict)
    """What only this algorithm measures."""
    sample: list[list[float]] = field(default_factory=list)
    """Return and length of a few of the episodes."""
    statistics: Statistics | None = None


@dataclass(frozen=True)
class EvaluationReport:
    """How well the policy does on envs of its own, taking its most probable actions."""

    iterations: int
    steps: int
    evaluation: Evaluation
    is_best: bool
    confirms: bool
    """Whether it was made to confirm that `train.until` is reached."""


@dataclass(frozen=True)
class CheckpointReport:
    """A checkpoint is on the disk."""

    iterations: int
    steps: int
    path: Path
    is_best: bool


@dataclass(frozen=True)
class TroubleReport:
    """Something went wrong and training goes on: gradients that were not finite, a worker that was replaced."""

    iterations: int
    steps: int
    what: str
    attempt: int
    """How often the run has been rolled back."""
    back_to: int | None = None
    """The step that the run was rolled back to; records of later steps are void."""
    kind: str = "trouble"
    """What sort of thing: `not-finite`, `rolled-back`, `return-collapsed`, `stalled`, `env-fault`, `worker-restarted`,
    `disk-low`, `store-away`, `store-back`, `tracker-failed`, ..."""
    facts: dict[str, Any] = field(default_factory=dict)
    """More of it, for programs."""


@dataclass(frozen=True)
class ControlReport:
    """Controllers changed what the next iterations run with."""

    iterations: int
    steps: int
    what: str
    """The decisions in one line, for people."""
    decisions: list[dict[str, Any]]
    """Each with `controller` and what it set: `env`, `reward`, `policies`, `learning_rate`, `entropy`, `stop`."""


@dataclass(frozen=True)
class EvaluationProgress:
    """Episodes of a running evaluation; reported a few times a second."""

    iterations: int
    steps: int
    done: int
    episodes: int


class Callback:
    """Listens to a run. Override what is of interest; every method may be left out.

    The trainer waits for each call, so keep them short. An exception ends the run; the run can be resumed.

    >>> class Losses(Callback):
    ...     def iteration(self, report):
    ...         print(report.steps, report.value_loss)
    """

    def start(self, report: StartReport) -> None:
        """Before the first iteration."""

    def progress(self, report: ProgressReport) -> None:
        """A few times a second."""

    def iteration(self, report: IterationReport) -> None:
        """Every `track.interval` iterations, and at the end for those that are left."""

    def evaluating(self, report: EvaluationProgress) -> None:
        """A few times a second during an evaluation."""

    def evaluation(self, report: EvaluationReport) -> None:
        """After an evaluation."""

    def control(self, report: ControlReport) -> None:
        """After controllers changed something, before the iterations that it concerns."""

    def checkpoint(self, report: CheckpointReport) -> None:
        """After a checkpoint was written."""

    def trouble(self, report: TroubleReport) -> None:
        """After something went wrong that training survives."""

    def end(self, run: Run) -> None:
        """After the last iteration, however the run ended."""
