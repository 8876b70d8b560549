"""The result of some iterations, in one form for all algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from hotloop.training.callbacks import TimeSplit

_MEANS: Final = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm", "epochs")
_LATEST: Final = ("explained_variance",)


@dataclass(frozen=True)
class IterationStats:
    """Counts, times and losses of the iterations of one call of `TrainingSession.advance`."""

    iterations: int
    steps: int
    seconds: float
    """Elapsed time."""
    time: TimeSplit
    """Its parts, as far as they are known."""
    gradient_steps: int = 0
    dropped: int = 0
    """Non-finite gradient steps, which were skipped."""
    losses: Mapping[str, float] = field(default_factory=dict)
    """Losses by name, as means over the iterations. An algorithm has the names it measures."""
    latest: Mapping[str, float] = field(default_factory=dict)
    """Values by name that describe the last iteration only."""

    @classmethod
    def from_ppo(cls, result: Mapping[str, Any], seconds: float) -> Self:
        """Return the stats of a result of `Learner.iterate`, which took this many seconds."""
        # Envs and policy share threads during collection; the elapsed time is divided in proportion to their CPU time.
        env, inference, copy = (result.get(f"seconds_{part}", 0.0) for part in ("env", "inference", "copy"))
        collecting = max(0.0, result["seconds_total"] - result["seconds_learn"])
        spent = env + inference + copy
        share = collecting / spent if spent > 0.0 else 0.0
        return cls(
            iterations=result["iterations"],
            steps=result["steps"],
            seconds=seconds,
            time=TimeSplit(env * share, inference * share, copy * share, result["seconds_learn"]),
            gradient_steps=result["gradient_steps"],
            dropped=result["dropped"],
            losses={name: result[name] for name in _MEANS},
            latest={name: result[name] for name in _LATEST},
        )
