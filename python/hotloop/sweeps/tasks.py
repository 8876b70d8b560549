"""Units of work for the workers of a sweep, and their results; both travel as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from hotloop.sweeps.space import Settings


class PrunedError(Exception):
    """A value below its cut: the end of a trial, not a fault of it."""


class Segment(NamedTuple):
    """Part of a training session with fixed settings; forked members of PBT have several."""

    settings: Settings
    seed: int
    steps: int | None = None
    """Total steps at its end; None: those of the config."""
    is_fork: bool = False
    """Whether it begins with a copy of another member: random streams start again from its seed."""


class Rung(NamedTuple):
    """An evaluation on the way, with the lowest value that may go on."""

    steps: int
    cut: float | None = None


@dataclass(frozen=True)
class Task:
    """Training from nothing, or from a state, through segments to an evaluation."""

    id: str
    """`trial/INDEX`, `rung/INDEX/NUMBER`, `member/MEMBER/GENERATION`, `confirm/INDEX/NUMBER` or `keep/INDEX`."""
    segments: tuple[Segment, ...]
    rungs: tuple[Rung, ...] = ()
    races: tuple[tuple[int, float | None], ...] = ()
    """Further seeds, each with the lowest mean so far with which it is trained."""
    returns_state: bool = False
    run: str | None = None
    """Name of the run folder to make."""

    @property
    def settings(self) -> Settings:
        """The settings that it ends with."""
        return self.segments[-1].settings

    def to_json(self) -> dict[str, Any]:
        """Return the message for a worker."""
        return dataclasses.asdict(self) | {"segments": self.segments, "rungs": self.rungs}

    @classmethod
    def from_json(cls, message: dict[str, Any]) -> Self:
        """Return the task of a message."""
        return cls(
            **{
                **message,
                "segments": tuple(Segment(*each) for each in message["segments"]),
                "rungs": tuple(Rung(*each) for each in message["rungs"]),
                "races": tuple((seed, cut) for seed, cut in message["races"]),
            }
        )


Result = dict[str, Any]
"""A line of the journal: `task`, `state`, `why`, `settings`, `seeds`, `rungs`, `evaluations`, `steps`, `cost`,
`seconds`, `cpu`, `memory`, `sha256`."""


def blank_result(task: str, settings: Settings, **facts: Any) -> Result:
    """Return the line of a task of which nothing is known yet."""
    return {
        "task": task,
        "state": "completed",
        "why": None,
        "settings": settings,
        "seeds": [],
        "rungs": [],
        "evaluations": [],
        "steps": 0,
        "cost": 0.0,
        "seconds": 0.0,
        "cpu": 0.0,
        "memory": 0,
        "sha256": None,
        **facts,
    }
