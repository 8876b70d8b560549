"""What a resumed run takes over from its journal."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

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
            alerts.look(_Record(event))


class _Record(SimpleNamespace):
    """A record as the alerts look at it; what the journal does not have is not a number."""

    def __init__(self, event: dict[str, Any]) -> None:
        super().__init__(**{key: math.nan if value is None else value for key, value in event.items()})

    def __getattr__(self, name: str) -> float:
        return math.nan
