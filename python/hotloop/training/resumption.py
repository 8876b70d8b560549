"""State that a resumed run restores from its journal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hotloop.errors import CheckpointError
from hotloop.tracking import journal
from hotloop.training.comparison import read_events

if TYPE_CHECKING:
    from hotloop.tracking.alerts import Alerts


def replay_records(run: Path, steps: int, alerts: Alerts) -> None:
    """Show the records up to a step to the alerts: what they found was reported then, and is not reported again."""
    try:
        events = journal.valid(read_events(run / journal.NAME), steps)
    except CheckpointError:
        return  # a damaged journal does not keep a run from going on, and its readers report the damage
    for event in events:
        if event["event"] == "iteration":
            alerts.look(_Record.of(event))


@dataclass(frozen=True)
class _Record:
    """The part of a recorded iteration that alerts depend on."""

    return_recent: float
    return_std: float
    episodes: int
    losses: Mapping[str, float]

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        numbers = {key: math.nan if value is None else value for key, value in event.items()}
        return cls(
            return_recent=numbers["return_recent"],
            return_std=numbers["return_std"],
            episodes=event["episodes"],
            # The journal has losses as entries of their own, beside all others.
            losses={key: value for key, value in numbers.items() if isinstance(value, float | int)},
        )
