"""Others that a run can be recorded to besides the store. Each is told the events of the journal, by a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hotloop.errors import StoreError
from hotloop.tracking.store_sync import evaluated, flattened

if TYPE_CHECKING:
    from hotloop.tracking.journal import Event

# The package that each needs.
PACKAGES: Final = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}


class Tracker(Protocol):
    """Takes what happened in a run, in order. What it raises ends it, not the run."""

    name: str

    def write(self, events: Sequence[Event]) -> None:
        """What has happened since the last time. The first event ever is the `start`, with the run's config."""

    def close(self) -> None:
        """The run is over."""


def must_be_installed(names: Sequence[str]) -> None:
    """Refuses names whose package is missing, before a run begins."""
    for name in names:
        if find_spec(PACKAGES[name]) is None:
            raise StoreError(
                f"track.trackers has {name!r}, but its package is not installed: pip install 'hotloop[{name}]'"
            )


def maker(name: str, folder: Path) -> Callable[[], Tracker]:
    """What makes the tracker of a name for a run's folder; its package is imported then."""

    def make() -> Tracker:
        try:
            made: Tracker = import_module(f"{__name__}.{name}").make(folder)
        except Exception as error:
            raise StoreError(f"{name} cannot be used: {error}") from error
        return made

    return make


def points(event: Event) -> Iterator[tuple[str, float]]:
    """The numbers that an event brings, by name; none for most kinds."""
    told: Iterator[tuple[str, Any]] = iter(())
    match event["event"]:
        case "iteration":
            told = flattened(event)
        case "evaluation":
            told = evaluated(event["evaluation"])
        case "resources":
            told = ((f"resources.{who}.{key}", entry[key]) for who, entry in event["of"].items() for key in entry)
    for name, value in told:
        if isinstance(value, int | float):
            yield name, float(value)
