"""Counters of a run: its progress, and sums over the iterations since the last record."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from hotloop.policies.evaluation import Evaluation
from hotloop.training.callbacks import IterationReport, Statistics, TimeSplit
from hotloop.training.control import ControlState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop import _core
    from hotloop.envs.spec import EnvSpec
    from hotloop.training.iteration_stats import IterationStats

# Episodes that a record lists one by one.
_SAMPLE = 16


@dataclass
class Since:
    """Sums since the last record. Saved in checkpoints, so that records do not depend on interruptions."""

    iterations: int = 0
    steps: int = 0
    gradient_steps: int = 0
    dropped: int = 0
    faults: int = 0
    seconds: float = 0.0
    env: float = 0.0
    inference: float = 0.0
    copy: float = 0.0
    learn: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    """Losses by name, weighted by the iterations of each call."""
    latest: dict[str, float] = field(default_factory=dict)
    """Values by name of the last iteration."""
    episodes: int = 0
    length: int = 0
    total: float = 0.0
    square: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    extra: list[float] = field(default_factory=list)
    extra_counts: list[int] = field(default_factory=list)
    """Episodes that each entry of `extra` is summed over; empty if it is all of them."""
    sample: list[list[float]] = field(default_factory=list)
    """Return and length of the first few episodes."""

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Self:
        """Return the sums that a checkpoint kept; version 0.1 had one of the losses as a field of its own."""
        given = dict(kept)
        if "explained_variance" in given:
            given["latest"] = {"explained_variance": given.pop("explained_variance")}
        return cls(**given)

    def add(self, stats: IterationStats) -> None:
        """Add the stats of some iterations."""
        self.iterations += stats.iterations
        self.steps += stats.steps
        self.gradient_steps += stats.gradient_steps
        self.dropped += stats.dropped
        for name, value in stats.losses.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * stats.iterations
        self.latest = dict(stats.latest)
        self.seconds += stats.seconds
        self.env += stats.time.env
        self.inference += stats.time.inference
        self.copy += stats.time.copy
        self.learn += stats.time.learn

    def add_episodes(self, finished: _core._Episodes) -> None:
        """Add finished episodes."""
        self.episodes += finished["count"]
        self.length += finished["length"]
        self.total += finished["total"]
        self.square += finished["square"]
        if finished["count"]:
            self.least = min(self.least, finished["min"])
            self.most = max(self.most, finished["max"])
        room = _SAMPLE - len(self.sample)
        if room > 0:
            few = zip(finished["returns"][:room].tolist(), finished["lengths"][:room].tolist(), strict=True)
            self.sample += [list(episode) for episode in few]
        # A checkpoint of an earlier version has no sums of metrics that this one adds at the end.
        before = [*self.extra, *[0.0] * (len(finished["extra"]) - len(self.extra))]
        self.extra = [a + b for a, b in zip(before, finished["extra"], strict=True)]
        if (counts := finished.get("extra_counts")) is not None:
            counted = self.extra_counts or [0] * len(counts)
            self.extra_counts = [a + b for a, b in zip(counted, counts, strict=True)]


@dataclass
class Counters:
    """Progress of a run."""

    iterations: int = 0
    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0
    attempt: int = 0
    """Number of rollbacks; part of every random key."""
    evaluation: Evaluation | None = None
    """The last one."""
    best: Evaluation | None = None
    solved: bool = False
    """Whether an evaluation confirmed that `until` was reached."""
    confirm_after: int = 0
    """Number of finished episodes at which `until` is checked again."""
    evaluated_at: int = -1
    """The iteration of the last evaluation."""
    recent: deque[float] = field(default_factory=deque)
    """The returns of the last finished episodes."""
    since: Since = field(default_factory=Since)
    journal_bytes: int | None = None
    """The length of the run's journal when the last checkpoint was saved."""
    control: ControlState = field(default_factory=ControlState)
    """Decisions of controllers, and their state."""

    @property
    def return_recent(self) -> float:
        """Their mean, by an exact sum: it does not depend on the batches in which episodes arrived."""
        return math.fsum(self.recent) / len(self.recent) if self.recent else math.nan

    def add(self, stats: IterationStats) -> None:
        """Add the stats of some iterations."""
        self.iterations += stats.iterations
        self.steps += stats.steps
        self.seconds += stats.seconds
        self.since.add(stats)

    def add_episodes(self, finished: _core._Episodes) -> None:
        """Add finished episodes."""
        self.episodes += finished["count"]
        self.recent.extend(finished["returns"].tolist())
        self.since.add_episodes(finished)

    def to_json(self) -> dict[str, Any]:
        """Return the part of a checkpoint that `from_json` reads."""
        return {**dataclasses.asdict(self), "recent": list(self.recent)}

    @classmethod
    def from_json(cls, kept: dict[str, Any], recent: int) -> Self:
        """Return the counters that a checkpoint kept."""
        return cls(
            **{
                **kept,
                "recent": deque(kept["recent"], maxlen=recent),
                "since": Since.from_json(kept["since"]),
                "control": ControlState.from_json(kept["control"]) if "control" in kept else ControlState(),
                "evaluation": kept["evaluation"] and Evaluation(**kept["evaluation"]),
                "best": kept["best"] and Evaluation(**kept["best"]),
            }
        )

    def take_report(
        self,
        spec: EnvSpec,
        *,
        learning_rate: float,
        coefficients: Mapping[str, float] | None = None,
        statistics: Statistics | None = None,
        measures: Mapping[str, float] | None = None,
    ) -> IterationReport:
        """Return the record of the iterations since the last one, and begin the next.

        Args:
            spec: The env's spec, which names the reward terms and metrics.
            learning_rate: Of the last iteration.
            coefficients: Of the last iteration's loss, by name; they are recorded with the losses.
            statistics: Of weights, gradients and actions.
            measures: Metrics of this algorithm only.
        """
        since, self.since = self.since, Since()
        terms, metrics = spec.terms, spec.metrics
        losses = {name: _ratio(total, since.iterations) for name, total in since.sums.items()}
        mean = _ratio(since.total, since.episodes)
        variance = _ratio(since.square, since.episodes) - mean * mean
        counts = since.extra_counts or [since.episodes] * len(since.extra)
        extra = [_ratio(total, count) for total, count in zip(since.extra, counts, strict=True)]
        measured = dict(zip(metrics, extra[len(terms) :], strict=False))
        if since.extra_counts:
            measured = {name: value for name, value in measured.items() if not math.isnan(value)}
        known = since.env + since.inference + since.copy + since.learn
        return IterationReport(
            iterations=self.iterations,
            steps=self.steps,
            episodes=self.episodes,
            seconds=self.seconds,
            iterations_in=since.iterations,
            steps_in=since.steps,
            seconds_in=since.seconds,
            steps_per_second=_ratio(since.steps, since.seconds),
            episodes_in=since.episodes,
            return_mean=mean,
            return_std=math.sqrt(max(variance, 0.0)) if since.episodes else math.nan,
            return_min=since.least if since.episodes else math.nan,
            return_max=since.most if since.episodes else math.nan,
            return_recent=self.return_recent,
            length_mean=_ratio(since.length, since.episodes),
            terms=dict(zip(terms, extra, strict=False)),
            metrics=measured,
            losses={**losses, **since.latest, **(coefficients or {})},
            gradient_steps=since.gradient_steps,
            dropped=since.dropped,
            faults=since.faults,
            learning_rate=learning_rate,
            time=TimeSplit(since.env, since.inference, since.copy, since.learn, max(0.0, since.seconds - known)),
            measures=dict(measures or {}),
            sample=since.sample,
            statistics=statistics,
        )


def _ratio(total: float, count: float) -> float:
    return total / count if count else math.nan
