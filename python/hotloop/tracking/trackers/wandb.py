"""Weights & Biases: a run there for each run here, in the project `hotloop` or that of `WANDB_PROJECT`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.tracking.trackers import points

if TYPE_CHECKING:
    from hotloop.tracking.journal import Event


class Wandb:
    """Logs to a run of Weights & Biases; `WANDB_MODE=offline` keeps it in the run's folder."""

    name = "wandb"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run: Any = None
        self._status = 0

    def write(self, events: Sequence[Event]) -> None:
        """Log the numbers of each event at its step."""
        for event in events:
            if event["event"] == "start":
                self._begin(event)
            elif event["event"] == "end":
                self._status = int(event["status"] == "failed")
            if self._run is not None and (values := dict(points(event))):
                self._run.log(values, step=event["steps"])

    def _begin(self, event: Event) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "hotloop"),
            id=event["id"],
            name=event["run"],
            config=event["config"],
            dir=str(self._folder),
            resume="allow",
        )

    def close(self) -> None:
        """End the run there."""
        if self._run is not None:
            self._run.finish(exit_code=self._status)


def make(folder: Path) -> Wandb:
    """The tracker of a run."""
    return Wandb(folder)
