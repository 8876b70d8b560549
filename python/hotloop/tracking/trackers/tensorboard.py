"""TensorBoard: event files in the run's folder. `tensorboard --logdir ~/.hotloop/runs` shows all runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from hotloop.tracking.trackers import points

if TYPE_CHECKING:
    from hotloop.tracking.journal import Event


class TensorBoard:
    """Writes event files."""

    name = "tensorboard"

    def __init__(self, folder: Path) -> None:
        self._writer = EventFileWriter(str(folder / "tensorboard"))

    def write(self, events: Sequence[Event]) -> None:
        """Write scalars by step; where a run goes back to a step, later points leave the curves."""
        for event in events:
            if event["event"] == "start" and event["resumed_at"] is not None:
                self._restart(event, event["resumed_at"])
            elif event.get("back_to") is not None:
                self._restart(event, event["back_to"])
            values = [Summary.Value(tag=name, simple_value=value) for name, value in points(event)]
            if values:
                record = Record(wall_time=event["at"], step=event["steps"], summary=Summary(value=values))
                self._writer.add_event(record)
        self._writer.flush()

    def _restart(self, event: Event, steps: int) -> None:
        log = SessionLog(status=SessionLog.START)
        self._writer.add_event(Record(wall_time=event["at"], step=steps + 1, session_log=log))

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def make(folder: Path) -> TensorBoard:
    """The tracker of a run."""
    return TensorBoard(folder)
