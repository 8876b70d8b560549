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
    from collections.abc import Sequence

    from hotloop import _core

_MEANS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm", "epochs")
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
    explained_variance: float = math.nan
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_MEANS, 0.0))
    """Means per call, weighted by its iterations."""
    episodes: int = 0
    length: int = 0
    total: float = 0.0
    square: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    extra: list[float] = field(default_factory=list)
    sample: list[list[float]] = field(default_factory=list)
    """Return and length of the first few episodes."""

    def add(self, result: dict[str, Any], seconds: float) -> None:
        """Add the result of a call of the learner that took this many seconds."""
        self.iterations += result["iterations"]
        self.steps += result["steps"]
        self.gradient_steps += result["gradient_steps"]
        self.dropped += result["dropped"]
        self.explained_variance = result["explained_variance"]
        for name in _MEANS:
            self.sums[name] += result[name] * result["iterations"]
        self.seconds += seconds
        self.learn += result["seconds_learn"]
        # Envs and policy share threads during collection; the elapsed time is divided in proportion to their CPU time.
        copy = result.get("seconds_copy", 0.0)
        collecting = max(0.0, result["seconds_total"] - result["seconds_learn"])
        spent = result["seconds_env"] + result["seconds_inference"] + copy
        share = collecting / spent if spent > 0.0 else 0.0
        self.env += result["seconds_env"] * share
        self.inference += result["seconds_inference"] * share
        self.copy += copy * share

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
        before = self.extra or [0.0] * len(finished["extra"])
        self.extra = [a + b for a, b in zip(before, finished["extra"], strict=True)]


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
                "since": Since(**kept["since"]),
                "control": ControlState.from_json(kept["control"]) if "control" in kept else ControlState(),
                "evaluation": kept["evaluation"] and Evaluation(**kept["evaluation"]),
                "best": kept["best"] and Evaluation(**kept["best"]),
            }
        )

    def report(
        self,
        settings: dict[str, Any],
        terms: Sequence[str],
        metrics: Sequence[str],
        statistics: Statistics | None,
        measures: dict[str, float] | None = None,
    ) -> IterationReport:
        """Return the record of the iterations since the last one."""
        since = self.since
        mean = _ratio(since.total, since.episodes)
        variance = _ratio(since.square, since.episodes) - mean * mean
        extra = [_ratio(total, since.episodes) for total in since.extra]
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
            metrics=dict(zip(metrics, extra[len(terms) :], strict=False)),
            **{name: _ratio(since.sums[name], since.iterations) for name in _MEANS},
            explained_variance=since.explained_variance,
            gradient_steps=since.gradient_steps,
            dropped=since.dropped,
            faults=since.faults,
            learning_rate=settings["learning_rate"],
            entropy_weight=settings["entropy"],
            time=TimeSplit(since.env, since.inference, since.copy, since.learn, max(0.0, since.seconds - known)),
            measures=measures or {},
            sample=since.sample,
            statistics=statistics,
        )


def _ratio(total: float, count: float) -> float:
    return total / count if count else math.nan
