"""Callbacks of the trainer, and the reports that they receive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hotloop.config import Config
    from hotloop.policies.evaluation import Evaluation
    from hotloop.runners.health import WorkerHealth
    from hotloop.training.runs import Run


@dataclass(frozen=True)
class StartReport:
    """The run is about to start training."""

    run: str
    """Name of the run and its folder."""
    path: Path
    config: Config
    learner: str
    """The learner, and why it was chosen."""
    work: str
    """The work of one iteration, in a line."""
    parameters: int
    """Number of weights of the policy."""
    num_threads: int
    resumed_at: int | None
    """Step of the checkpoint that was restored; `None` for a new run."""
    journal_bytes: int | None = None
    """The length of the journal when that checkpoint was saved; later events are void."""
    notes: tuple[str, ...] = ()
    """Notices, such as checkpoints that were refused."""


@dataclass(frozen=True)
class TimeSplit:
    """Time profile in seconds."""

    env: float = 0.0
    inference: float = 0.0
    copy: float = 0.0
    learn: float = 0.0
    rest: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all parts."""
        return self.env + self.inference + self.copy + self.learn + self.rest


@dataclass(frozen=True)
class ProgressReport:
    """Progress of a run, for displays; sent a few times a second."""

    steps: int
    iterations: int
    episodes: int
    seconds: float
    steps_per_second: float
    """Since the last such report."""
    fraction: float
    """Fraction of the nearest limit that is used up; 0 if there is none."""
    workers: tuple[WorkerHealth, ...] = ()
    """Health of the worker processes of Python envs."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of weights, gradients and actions after an iteration."""

    weights: dict[str, dict[str, float]]
    """For each array: `norm`, `mean`, `std`, `max` (absolute)."""
    gradients: dict[str, dict[str, float]]
    """The same for the gradient of the loss over the whole rollout."""
    actions: dict[str, Any]
    """`shares` of each discrete choice, and `mean` and `std` of each continuous dimension."""


@dataclass(frozen=True)
class IterationReport:
    """The record of the last `iterations_in` iterations, sent every `track.interval` iterations.

    Episodes count per row. Returns are NaN while no episode has finished.
    """

    iterations: int
    steps: int
    episodes: int
    seconds: float
    """Training time, including earlier parts of a resumed run."""
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
    losses: dict[str, float]
    """Losses by name, as far as the algorithm has them. PPO: `policy_loss`, `value_loss`, `entropy`, `kl`,
    `clip_fraction`, `gradient_norm`, `epochs`, `explained_variance` of the last iteration, and `entropy_weight`."""
    gradient_steps: int
    dropped: int
    """Non-finite gradient steps, which were skipped."""
    faults: int
    """Env faults; each env was reset."""
    learning_rate: float
    time: TimeSplit
    measures: dict[str, float] = field(default_factory=dict)
    """Metrics of this algorithm only."""
    sample: list[list[float]] = field(default_factory=list)
    """Return and length of the first few episodes."""
    statistics: Statistics | None = None


@dataclass(frozen=True)
class EvaluationReport:
    """An evaluation of the policy, with its most probable actions, on separate envs."""

    iterations: int
    steps: int
    evaluation: Evaluation
    is_best: bool
    confirms: bool
    """Whether its purpose was to confirm that `train.until` is reached."""


@dataclass(frozen=True)
class CheckpointReport:
    """A checkpoint was written."""

    iterations: int
    steps: int
    path: Path
    is_best: bool


@dataclass(frozen=True)
class TroubleReport:
    """A problem that training survives: non-finite gradients, a worker that was replaced."""

    iterations: int
    steps: int
    what: str
    attempt: int
    """Number of rollbacks so far."""
    back_to: int | None = None
    """The step that the run was rolled back to; records of later steps are void."""
    kind: str = "trouble"
    """Category: `not-finite`, `rolled-back`, `return-collapsed`, `stalled`, `env-fault`, `worker-restarted`,
    `disk-low`, `store-away`, `store-back`, `tracker-failed`, ..."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Details, for programs."""


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


@dataclass(frozen=True)
class ValuesReport:
    """Values that a callback logged."""

    iterations: int
    steps: int
    values: dict[str, float]


class Callback:
    """A listener of a run. Override the methods you need.

    The trainer waits for each call, so keep them short. A method that returns `False` ends the run after the current
    iterations, with a last evaluation and checkpoint. An exception ends the run at once; it can be resumed.

    >>> class Losses(Callback):
    ...     def iteration(self, report):
    ...         losses = report.losses
    ...         self.log({"loss_ratio": losses["value_loss"] / losses["policy_loss"]})
    ...         return losses["value_loss"] < 100
    """

    def log(self, values: Mapping[str, float]) -> None:
        """Record values of your own at the current step: plots, trackers and exports have them by these names.

        They are recorded when the method that calls this returns; after `end` it is too late.
        """
        logged: dict[str, float] = self.__dict__.setdefault("_logged", {})
        for name, value in values.items():
            if not name:
                raise ValueError("a logged value has no name")
            logged[name] = float(value)

    def take_logged(self) -> dict[str, float]:
        """Return the values that were logged since the last call; the trainer calls this."""
        taken: dict[str, float] = self.__dict__.pop("_logged", {})
        return taken

    def start(self, report: StartReport) -> bool | None:
        """Before the first iteration."""

    def progress(self, report: ProgressReport) -> bool | None:
        """A few times a second."""

    def iteration(self, report: IterationReport) -> bool | None:
        """Every `track.interval` iterations, and at the end for those that are left."""

    def evaluating(self, report: EvaluationProgress) -> bool | None:
        """A few times a second during an evaluation."""

    def evaluation(self, report: EvaluationReport) -> bool | None:
        """After an evaluation."""

    def control(self, report: ControlReport) -> bool | None:
        """After controllers changed something, before the iterations that it concerns."""

    def checkpoint(self, report: CheckpointReport) -> bool | None:
        """After a checkpoint was written."""

    def trouble(self, report: TroubleReport) -> bool | None:
        """After a problem that training survives."""

    def end(self, run: Run) -> None:
        """After the last iteration, however the run ended."""
