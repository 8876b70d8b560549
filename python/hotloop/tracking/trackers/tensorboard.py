"""TensorBoard: event files in the run's folder. `tensorboard --logdir ~/.hotloop/runs` shows all runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from hotloop.tracking.trackers import points

if TYPE_CHECKING:
    from hotloop.tracking.journal import Event


# TensorBoard shows tags with the same word before the slash together; the groups are those of Stable-Baselines3.
_GROUPS: Final = {
    "rollout": ("return_", "length_", "episodes", "terms.", "metrics.", "faults"),
    "time": ("time.", "seconds", "steps_per_second", "iterations_in", "steps_in"),
    "eval": ("evaluation.",),
    "resources": ("resources.",),
    "statistics": ("statistics.",),
}


def tag(metric: str) -> str:
    """Return the tag of a metric: a group, and its name in it.

    >>> [tag(name) for name in ("return_mean", "policy_loss", "time.env", "evaluation.mean")]
    ['rollout/return_mean', 'train/policy_loss', 'time/env', 'eval/mean']
    """
    for group, beginnings in _GROUPS.items():
        for beginning in beginnings:
            if metric.startswith(beginning):
                return f"{group}/{metric.removeprefix(beginning) if beginning.endswith('.') else metric}"
    return f"train/{metric}"


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
            grouped = event["event"] != "values"
            values = [
                Summary.Value(tag=tag(name) if grouped else name, simple_value=value) for name, value in points(event)
            ]
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
