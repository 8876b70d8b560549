"""Reports of a runner between steps: finished episodes and faults, counted in the core."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop import _core


@dataclass(frozen=True)
class RecentEpisodes:
    """The last finished episodes, oldest first: one entry per row and episode."""

    rows: NDArray[np.int64]
    numbers: NDArray[np.int64]
    """Number of each episode in its env, since the env was seeded."""
    lengths: NDArray[np.int64]
    returns: NDArray[np.float32]
    terms: dict[str, NDArray[np.float32]]
    """The sum of each reward term, without its weight."""
    metrics: dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class EpisodeReport:
    """Episodes that finished since the last report; means over all of them, NaN if there were none.

    Each row of an env counts as an episode of its own; its length is the number of decisions it made.
    """

    count: int
    return_mean: float
    return_std: float
    return_min: float
    return_max: float
    length_mean: float
    terms: dict[str, float]
    """The mean of each reward term's sum, without its weight."""
    metrics: dict[str, float]
    """The mean of each metric, `success` among them where the task defines it."""
    recent: RecentEpisodes

    @classmethod
    def from_core(cls, sums: _core._Episodes, terms: Sequence[str], metrics: Sequence[str]) -> EpisodeReport:
        """Make a report from the sums that the core keeps."""
        count = sums["count"]
        mean = _ratio(sums["total"], count)
        variance = _ratio(sums["square"], count) - mean * mean
        counts = sums.get("extra_counts") or [count] * len(sums["extra"])
        means = [_ratio(total, episodes) for total, episodes in zip(sums["extra"], counts, strict=True)]
        columns = list(sums["extras"].T)
        return cls(
            count=count,
            return_mean=mean,
            # Rounding can leave a variance of zero slightly negative.
            return_std=math.sqrt(max(variance, 0.0)) if count else math.nan,
            return_min=sums["min"] if count else math.nan,
            return_max=sums["max"] if count else math.nan,
            length_mean=_ratio(sums["length"], count),
            terms=dict(zip(terms, means, strict=False)),
            metrics=dict(zip(metrics, means[len(terms) :], strict=True)),
            recent=RecentEpisodes(
                rows=sums["rows"],
                numbers=sums["numbers"],
                lengths=sums["lengths"],
                returns=sums["returns"],
                terms=dict(zip(terms, columns, strict=False)),
                metrics=dict(zip(metrics, columns[len(terms) :], strict=True)),
            ),
        )


def _ratio(total: float, count: int) -> float:
    return total / count if count else math.nan


@dataclass(frozen=True)
class Fault:
    """A failure of an env, or of the worker that had it; its episode was cut, and it was reset."""

    env: int
    episode: int
    step: int
    what: str
    kind: str = "output"
    """`output` (invalid output of a native env), `raise`, `exit`, `killed`, `timeout`, `memory`, or `state` (the env
    continues, but cannot be saved)."""
    worker: int | None = None
    """The worker process that had the env."""
    seed: int | None = None
    """The env's last seed, from the run's start or from its replacement."""
    actions: tuple[Any, ...] = ()
    """The last actions sent to the env, oldest first."""
    traceback: str = ""
    """The Python stack of the failure, if it is known."""

    def report(self) -> str:
        """Return all of it as text."""
        where = f"env {self.env}" + ("" if self.worker is None else f" of worker {self.worker}")
        lines = [f"{where}, episode {self.episode}, seed {self.seed}: {self.what}"]
        if self.actions:
            lines.append(f"last actions: {', '.join(map(str, self.actions))}")
        return "\n".join([*lines, self.traceback.rstrip()]).rstrip()


@dataclass(frozen=True)
class FaultReport:
    """Faults since the last report, the first of them in detail."""

    count: int
    first: tuple[Fault, ...]
