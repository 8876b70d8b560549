"""MLflow: a run there for each part of a run here, in the experiment `hotloop` or that of `MLFLOW_EXPERIMENT_NAME`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.tracking.trackers import points

if TYPE_CHECKING:
    from hotloop.tracking.journal import Event

# The most values in one request to MLflow.
_MOST_METRICS: Final = 1000
_MOST_PARAMETERS: Final = 100
_LONGEST: Final = 500
_STATUS: Final = {"completed": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


class Mlflow:
    """Logs where `MLFLOW_TRACKING_URI` leads."""

    name = "mlflow"

    def __init__(self) -> None:
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient()
        self._run: str | None = None
        self._status = "KILLED"

    def write(self, events: Sequence[Event]) -> None:
        """Log the numbers of each event at its step."""
        from mlflow.entities import Metric

        found = []
        for event in events:
            if event["event"] == "start":
                self._begin(event)
            elif event["event"] == "end":
                self._status = _STATUS[event["status"]]
            at = round(1000 * event["at"])
            found += [Metric(name, value, at, event["steps"]) for name, value in points(event)]
        for first in range(0, len(found), _MOST_METRICS):
            assert self._run is not None
            self._client.log_batch(self._run, metrics=found[first : first + _MOST_METRICS])

    def _begin(self, event: Event) -> None:
        from mlflow.entities import Param

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "hotloop")
        experiment = self._client.get_experiment_by_name(name)
        number = self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        tags = {"hotloop.id": event["id"], "hotloop.resumed_at": str(event["resumed_at"])}
        self._run = self._client.create_run(number, run_name=event["run"], tags=tags).info.run_id
        settings = [Param(key, str(value)[:_LONGEST]) for key, value in _settings(event["config"])]
        for first in range(0, len(settings), _MOST_PARAMETERS):
            self._client.log_batch(self._run, params=settings[first : first + _MOST_PARAMETERS])

    def close(self) -> None:
        """End the run there."""
        if self._run is not None:
            self._client.set_terminated(self._run, self._status)


def _settings(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for part, values in config.items():
        for key, value in values.items():
            yield f"{part}.{key}", value


def make(folder: Path) -> Mlflow:
    """The tracker of a run."""
    return Mlflow()
