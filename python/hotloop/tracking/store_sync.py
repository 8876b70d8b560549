"""From a run's journal to the rows of a store: in order, each event once, whoever does it and however often.

How far a journal was taken stands in the store and moves in the same transaction as the rows.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.tracking import journal
from hotloop.tracking.errors import StoreError

if TYPE_CHECKING:
    from hotloop.tracking.database import Database
    from hotloop.tracking.journal import Event

# Tables whose rows belong to a step, and are void when a run goes back behind it.
STEPPED: Final = ("metrics", "episodes", "evaluations", "checkpoints", "events", "resources")
_EPISODES: Final = ("return_mean", "return_std", "return_min", "return_max", "length_mean")
_COLUMNS: Final = {
    "metrics": ("run", "key", "step", "time", "value"),
    "episodes": ("run", "step", "time", "count", *_EPISODES, "sample"),
    "evaluations": ("run", "step", "time", "source", "mean", "low", "high", "episodes", "facts"),
    "checkpoints": ("run", "step", "time", "path", "is_best"),
    "events": ("run", "step", "time", "kind", "level", "what", "facts"),
    "resources": ("run", "step", "time", "who", "cpu", "memory", "facts"),
}
_UNIQUE: Final = {"metrics": ("run", "key", "step"), "episodes": ("run", "step"), "checkpoints": ("run", "step")}
# Of a record: where it stands, and what has a table of its own.
_NO_METRICS: Final = {"event", "at", "steps", "iterations", "sample", "actions"}
_NUMBERS: Final = frozenset((float, int, bool))
_EVALUATED: Final = ("mean", "low", "high", "std", "length_mean")


def feed(link: Database, folder: Path) -> int:
    """Brings what is new in a run's journal to the store; gives how many events that were."""
    path = folder / journal.NAME
    first = journal.first_start(path)
    if first is None:
        return 0
    count = 0
    with link.telling():
        while True:
            number, taken = _place(link, first["id"], folder)
            events, end = journal.read(path, taken)
            if end == taken:
                return count
            # The store must never know more than the journal, not even after a loss of power.
            _sync(path)
            try:
                with link.transaction():
                    if _place(link, first["id"], folder) == (number, taken):
                        _Writer(link, number, folder).write(events)
                        link.execute(
                            "UPDATE runs SET taken = ?, path = ? WHERE id = ?",
                            (end, str(folder.absolute()), first["id"]),
                        )
                        count += len(events)
            except BaseException:
                link.forget_keys()
                raise


def _place(link: Database, run: str, folder: Path) -> tuple[int | None, int]:
    """The run's number in the store, and how far its journal was taken."""
    row = link.execute("SELECT number, taken, path FROM runs WHERE id = ?", (run,)).fetchone()
    if row is None:
        return None, 0
    number, taken, path = row
    other = Path(path)
    # In the copy of a whole home its own folders count.
    if link.place.is_home_of(folder) and not link.place.is_home_of(other):
        return number, taken
    if other != folder.absolute() and other.exists() and not other.samefile(folder):
        known = journal.first_start(other / journal.NAME)
        if known is not None and known["id"] == run:
            raise StoreError(f"the folder {folder} is a copy of the run {other}: only one of them can be in a store")
    return number, taken


def note_path(link: Database, run: str, folder: Path) -> None:
    """A run that was moved lies here now."""
    here = str(folder.absolute())
    with link.telling():
        link.execute("UPDATE runs SET path = ? WHERE id = ? AND path <> ?", (here, run, here))


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError:
        pass  # a folder on a medium that cannot be written has nothing to lose
    finally:
        os.close(file)


class _Writer:
    """Turns events into rows, and hands them over table by table."""

    def __init__(self, link: Database, number: int | None, folder: Path) -> None:
        self._link = link
        self._number = number
        self._folder = folder
        self._rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in STEPPED}
        self._points: defaultdict[str, list[tuple[int, float, float]]] = defaultdict(list)
        self._changes: dict[str, object] = {}

    def write(self, events: Iterable[Event]) -> None:
        for event in events:
            take = getattr(self, f"_take_{event['event']}", None)
            if (back_to := journal.goes_back_to(event)) is not None:
                self._forget_after(back_to)
            # What a later version may add is not for this one.
            if take is not None:
                self._changes["seen"] = event["at"]
                take(event)
        self._hand_over()

    def _take_start(self, event: Event) -> None:
        resumed = event["resumed_at"]
        run = {
            "name": event["run"],
            "host": event["host"],
            "process": event["process"],
            "env": event["env"],
            "seed": str(event["seed"]),
            "status": "running",
            "ended": None,
            "seen": event["at"],
            "config": json.dumps(event["config"]),
            "facts": json.dumps({key: event.get(key) for key in _FACTS}),
        }
        if self._number is not None:
            self._changes |= {**run, "steps": resumed or 0}
            what = "the run began anew" if resumed is None else f"the run went on from step {resumed}"
            self._row("events", event, "resumed", "info", what, "{}")
            return
        zero = {"seconds": 0.0, "steps": 0, "iterations": 0, "episodes": 0, "taken": 0}
        new = {"id": event["id"], "path": str(self._folder.absolute()), "created": event["at"], **run, **zero}
        self._link.insert("runs", list(new), [list(new.values())])
        self._number = self._link.execute("SELECT number FROM runs WHERE id = ?", (event["id"],)).fetchone()[0]

    def _take_iteration(self, event: Event) -> None:
        self._advance(event)
        self._changes |= {"seconds": event["seconds"], "return_recent": event["return_recent"]}
        self._add_points(event, flattened(event))
        if event["episodes_in"]:
            told = (event[name] for name in _EPISODES)
            self._row("episodes", event, event["episodes_in"], *told, json.dumps(event.get("sample") or []))

    def _take_evaluation(self, event: Event) -> None:
        found = event["evaluation"]
        self._evaluation(event, "training", found, {"is_best": event["is_best"], "confirms": event["confirms"]})
        self._add_points(event, evaluated(found))
        if event["is_best"]:
            self._changes["best"] = found["mean"]

    def _take_eval(self, event: Event) -> None:
        self._evaluation(event, "eval", event["evaluation"], event["how"])

    def _evaluation(self, event: Event, source: str, found: Event, more: Event) -> None:
        facts = json.dumps({**found, **more})
        self._row("evaluations", event, source, found["mean"], found["low"], found["high"], found["episodes"], facts)

    def _take_checkpoint(self, event: Event) -> None:
        self._row("checkpoints", event, event["path"], int(event["is_best"]))

    def _take_trouble(self, event: Event) -> None:
        facts = json.dumps(event.get("facts") or {})
        self._row("events", event, event.get("kind", "trouble"), "warning", event["what"], facts)

    def _take_resources(self, event: Event) -> None:
        for who, told in event["of"].items():
            facts = {key: value for key, value in told.items() if key not in ("cpu", "memory")}
            self._row("resources", event, who, told.get("cpu"), told.get("memory"), json.dumps(facts))

    def _take_end(self, event: Event) -> None:
        self._advance(event)
        self._changes |= {key: event[key] for key in ("status", "ended", "seconds", "return_recent")}
        if event["status"] == "failed":
            self._row("events", event, "failed", "error", event["ended"] or "", "{}")

    def _advance(self, event: Event) -> None:
        self._changes |= {key: event[key] for key in ("steps", "iterations", "episodes")}

    def _add_points(self, event: Event, points: Iterable[tuple[str, Any]]) -> None:
        step, at, told = event["steps"], event["at"], self._points
        for name, value in points:
            if type(value) in _NUMBERS and isfinite(value):
                told[name].append((step, at, value))

    def _row(self, table: str, event: Event, *values: object) -> None:
        assert self._number is not None
        self._rows[table].append((self._number, event["steps"], event["at"], *values))

    def _forget_after(self, steps: int) -> None:
        self._hand_over()
        if self._number is not None:
            for table in STEPPED:
                self._link.execute(f"DELETE FROM {table} WHERE run = ? AND step > ?", (self._number, steps))

    def _hand_over(self) -> None:
        """Writes all rows. Of two for the same place the later counts."""
        if self._number is None:
            return
        link = self._link
        numbers = link.key_numbers(self._points)
        # In the table's own order, which is the quickest to write.
        points = sorted((numbers[name], told) for name, told in self._points.items())
        self._rows["metrics"] = [(self._number, number, *point) for number, told in points for point in told]
        for table, rows in self._rows.items():
            link.insert(table, _COLUMNS[table], rows, unique=_UNIQUE.get(table, ()))
            rows.clear()
        self._points.clear()
        if self._changes:
            columns = ", ".join(f"{name} = ?" for name in self._changes)
            link.execute(f"UPDATE runs SET {columns} WHERE number = ?", (*self._changes.values(), self._number))
            self._changes.clear()


_FACTS: Final = ("learner", "parameters", "threads", "versions", "git", "machine", "env_options")


def flattened(event: Event) -> Iterator[tuple[str, Any]]:
    """The numbers of a record by dotted names.

    >>> dict(flattened({"event": "iteration", "kl": 0.1, "time": {"env": 2.0}}))
    {'kl': 0.1, 'time.env': 2.0}
    """
    for key, value in event.items():
        if key in _NO_METRICS:
            continue
        if type(value) in _NUMBERS:
            yield key, value
        else:
            yield from _leaves(key, value)


def evaluated(found: Event) -> Iterator[tuple[str, Any]]:
    """The numbers of an evaluation by dotted names."""
    yield from ((f"evaluation.{name}", found.get(name)) for name in _EVALUATED)
    yield from ((f"evaluation.metrics.{name}", value) for name, value in found["metrics"].items())


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _leaves(f"{name}.{key}", entry)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _leaves(f"{name}.{index}", entry)
    else:
        yield name, value
