"""Trackers besides the store. A thread of the run passes the events of the journal to each."""

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

# The package that each tracker needs.
PACKAGES: Final = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}


class Tracker(Protocol):
    """Receives the events of a run in order. An exception ends the tracker, not the run."""

    name: str

    def write(self, events: Sequence[Event]) -> None:
        """Write the events since the last call. The very first is the `start`, with the run's config."""

    def close(self) -> None:
        """Close the tracker at the end of the run."""


def check_installed(names: Sequence[str]) -> None:
    """Raise an error, before a run begins, if the package of a tracker is missing."""
    for name in names:
        if find_spec(PACKAGES[name]) is None:
            raise StoreError(
                f"track.trackers has {name!r}, but its package is not installed: pip install 'hotloop[{name}]'"
            )


def factory(name: str, folder: Path) -> Callable[[], Tracker]:
    """A factory of the named tracker for a run's folder; its package is imported when it is called."""

    def create() -> Tracker:
        try:
            made: Tracker = import_module(f"{__name__}.{name}").make(folder)
        except Exception as error:
            raise StoreError(f"{name} cannot be used: {error}") from error
        return made

    return create


def points(event: Event) -> Iterator[tuple[str, float]]:
    """The numbers of an event by name; none for most kinds."""
    found: Iterator[tuple[str, Any]] = iter(())
    match event["event"]:
        case "iteration":
            found = flattened(event)
        case "evaluation":
            found = evaluated(event["evaluation"])
        case "values":
            found = iter(event["values"].items())
        case "resources":
            found = ((f"resources.{who}.{key}", entry[key]) for who, entry in event["of"].items() for key in entry)
    for name, value in found:
        if isinstance(value, int | float):
            yield name, float(value)
