"""Synchronisation of a store with the journals of runs: in order, each event once, whoever does it and however often.

The position up to which a journal was read is stored with the run and moves in the same transaction as the rows.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import StoreError
from hotloop.text import storable
from hotloop.tracking import events, journal

if TYPE_CHECKING:
    from hotloop.tracking.database import Database
    from hotloop.tracking.journal import Event, Line, Void

# Tables whose rows belong to a step, and are void when a run goes back behind it.
STEPPED: Final = ("metrics", "episodes", "evaluations", "checkpoints", "events", "resources")
# The position of the event in the journal ends each row.
_COLUMNS: Final = {
    "metrics": ("run", "key", "step", "time", "value", "position"),
    "episodes": ("run", "step", "time", "count", *events.EPISODE_STATISTICS, "sample", "position"),
    "evaluations": ("run", "step", "time", "source", "mean", "low", "high", "episodes", "facts", "position"),
    "checkpoints": ("run", "step", "time", "path", "is_best", "position"),
    "events": ("run", "step", "time", "kind", "level", "what", "facts", "position"),
    "resources": ("run", "step", "time", "who", "cpu", "memory", "facts", "position"),
}
_UNIQUE: Final = {"metrics": ("run", "key", "step"), "episodes": ("run", "step"), "checkpoints": ("run", "step")}
# Keys of a record that are its position, or have a table of their own.
_NO_METRICS: Final = {"event", "at", "steps", "iterations", "sample", "actions"}
_NUMBERS: Final = frozenset((float, int, bool))
_RESULTS: Final = ("mean", "low", "high", "std", "length_mean")
_LONGEST_KEY: Final = 500
# Lines that one transaction takes.
_LINES_AT_ONCE: Final = 20_000
# Damaged lines that are named one by one.
_MOST_NAMED: Final = 3


@dataclass
class SyncResult:
    """The result of a synchronisation."""

    count: int = 0
    """Events that were new to the store."""
    damaged: list[str] = field(default_factory=list)
    """Lines of the journal that could not be read, as sentences."""


def sync(database: Database, folder: Path) -> SyncResult:
    """Bring the new events of a run's journal to the store. Damaged lines are left out and reported."""
    path = folder / journal.NAME
    start = journal.find_start(path)
    result = SyncResult()
    if start is None:
        return result
    damaged: list[tuple[int, str]] = []
    with database.translated_errors():
        while True:
            number, taken = _find_run(database, start["id"], folder)
            lines = list(islice(journal.read_lines(path, taken), _LINES_AT_ONCE))
            if not lines:
                break
            # The store must never be ahead of the journal, not even after a loss of power.
            _sync_file(path)
            try:
                with database.transaction():
                    if _find_run(database, start["id"], folder) == (number, taken):
                        writer = _Writer(database, number, folder, start)
                        result.count += writer.write(lines)
                        damaged += writer.damaged
                        database.execute(
                            "UPDATE runs SET taken = ?, path = ? WHERE id = ?",
                            (lines[-1].end, str(folder.absolute()), start["id"]),
                        )
            except BaseException:
                database.forget_keys()
                raise
    result.damaged = _describe_damage(path, damaged)
    return result


def _describe_damage(path: Path, damaged: Sequence[tuple[int, str]]) -> list[str]:
    run = path.parent.name
    named = [
        f"the run {run!r}: line {journal.line_number(path, position)} of {path} is damaged and was left out: {why}"
        for position, why in damaged[:_MOST_NAMED]
    ]
    more = len(damaged) - _MOST_NAMED
    return [*named, f"the run {run!r}: {more} more lines of {path} are damaged"] if more > 0 else named


def _find_run(database: Database, run: str, folder: Path) -> tuple[int | None, int]:
    """The run's number in the store, and the position up to which its journal was read."""
    row = database.execute("SELECT number, taken, path FROM runs WHERE id = ?", (run,)).fetchone()
    if row is None:
        return None, 0
    number, taken, path = row
    other = Path(path)
    # In the copy of a whole home its own folders count.
    if database.url.is_home_of(folder) and not database.url.is_home_of(other):
        return number, taken
    if other != folder.absolute() and other.exists() and not other.samefile(folder):
        known = journal.find_start(other / journal.NAME)
        if known is not None and known["id"] == run:
            raise StoreError(f"the folder {folder} is a copy of the run {other}: only one of them can be in a store")
    return number, taken


def update_path(database: Database, run: str, folder: Path) -> None:
    """Store where the folder of a run that was moved is now."""
    here = str(folder.absolute())
    with database.translated_errors():
        database.execute("UPDATE runs SET path = ? WHERE id = ? AND path <> ?", (here, run, here))


def _sync_file(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    except OSError:
        pass  # a read-only medium has nothing to lose
    finally:
        os.close(file)


class _Writer:
    """Turns events into rows, and writes them table by table."""

    def __init__(self, database: Database, number: int | None, folder: Path, start: Event) -> None:
        self._database = database
        self._folder = folder
        self._rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in STEPPED}
        self._points: defaultdict[str, list[tuple[int, float, float, int]]] = defaultdict(list)
        self._changes: dict[str, object] = {}
        self._position = 0
        self.damaged: list[tuple[int, str]] = []
        # Events may precede the first readable start: they belong to the run all the same.
        self._number: int = self._insert_run(start) if number is None else number
        self._start = start if number is None else None

    def write(self, lines: Iterable[Line]) -> int:
        """Write the events of these lines; return how many there were."""
        count = 0
        for line in lines:
            event = line.event
            damage = line.damage if event is None else events.find_fault(event)
            if damage:
                self.damaged.append((line.start, damage))
            if event is None or damage:
                continue
            count += 1
            self._position = line.start
            if (void := journal.find_void(event)) is not None:
                self._delete_void(void)
            # Kinds that a later version adds have no method here.
            add = getattr(self, f"_add_{event['event']}", None)
            if add is not None:
                self._changes["seen"] = event["at"]
                add(event)
        self._flush()
        return count

    def _insert_run(self, event: Event) -> int:
        zero = {"seconds": 0.0, "steps": 0, "iterations": 0, "episodes": 0, "taken": 0}
        columns = {
            "id": storable(event["id"]),
            "path": str(self._folder.absolute()),
            "created": event["at"],
            **_run_columns(event),
            **zero,
        }
        self._database.insert("runs", list(columns), [list(columns.values())])
        number: int = self._database.execute("SELECT number FROM runs WHERE id = ?", (columns["id"],)).fetchone()[0]
        return number

    def _add_start(self, event: Event) -> None:
        resumed = event.get("resumed_at")
        is_first, self._start = event == self._start, None
        self._changes |= {**_run_columns(event), "steps": resumed or 0}
        if not is_first or resumed is not None:
            what = "the run began again" if resumed is None else f"the run was resumed from step {resumed}"
            self._row("events", event, "resumed", "info", what, "{}")

    def _add_iteration(self, event: Event) -> None:
        self._advance(event)
        self._changes |= {"seconds": event["seconds"], "return_recent": event["return_recent"]}
        self._add_points(event, flattened(event))
        if event["episodes_in"]:
            statistics = (event[name] for name in events.EPISODE_STATISTICS)
            self._row("episodes", event, event["episodes_in"], *statistics, json.dumps(event.get("sample") or []))

    def _add_values(self, event: Event) -> None:
        self._add_points(event, event["values"].items())

    def _add_evaluation(self, event: Event) -> None:
        found = event["evaluation"]
        self._add_result(event, "training", found, {"is_best": event["is_best"], "confirms": event["confirms"]})
        self._add_points(event, evaluated(found))
        if event["is_best"]:
            self._changes["best"] = found["mean"]

    def _add_eval(self, event: Event) -> None:
        self._add_result(event, "eval", event["evaluation"], event["how"])

    def _add_result(self, event: Event, source: str, found: Event, more: Event) -> None:
        facts = json.dumps({**found, **more})
        self._row("evaluations", event, source, found["mean"], found["low"], found["high"], found["episodes"], facts)

    def _add_checkpoint(self, event: Event) -> None:
        self._row("checkpoints", event, storable(event["path"]), int(event["is_best"]))

    def _add_retraction(self, event: Event) -> None:
        """Delete the row of a checkpoint that could not be saved, or write the one again that it had replaced."""
        self._flush()
        self._database.execute("DELETE FROM checkpoints WHERE run = ? AND step = ?", (self._number, event["steps"]))
        lines = journal.read_lines(self._folder / journal.NAME)
        before = takewhile(lambda line: line.start < self._position, lines)
        saved = [(line.event, line.start) for line in before if line.event and line.event["event"] == "checkpoint"]
        if len(saved) > 1 and saved[-2][0].get("steps") == event["steps"]:
            self._rewrite_checkpoint(*saved[-2])

    def _add_trouble(self, event: Event) -> None:
        facts = json.dumps(event.get("facts") or {})
        kind = storable(event.get("kind") or "trouble")
        self._row("events", event, kind, "warning", storable(event["what"]), facts)

    def _add_control(self, event: Event) -> None:
        facts = json.dumps({"decisions": event["decisions"]})
        self._row("events", event, "control", "info", storable(event["what"]), facts)

    def _add_verification(self, event: Event) -> None:
        self._row("events", event, "verified", "info", storable(event["what"]), json.dumps(event["facts"]))

    def _add_resources(self, event: Event) -> None:
        for who, sample in event["of"].items():
            facts = {key: value for key, value in sample.items() if key not in ("cpu", "memory")}
            self._row("resources", event, storable(who), sample.get("cpu"), sample.get("memory"), json.dumps(facts))

    def _add_end(self, event: Event) -> None:
        self._advance(event)
        ended = event["ended"] and storable(event["ended"])
        self._changes |= {key: event[key] for key in ("status", "seconds", "return_recent")} | {"ended": ended}
        if event["status"] == "failed":
            self._row("events", event, "failed", "error", ended or "", "{}")

    def _advance(self, event: Event) -> None:
        self._changes |= {key: event[key] for key in ("steps", "iterations", "episodes")}

    def _add_points(self, event: Event, points: Iterable[tuple[str, Any]]) -> None:
        step, at, position = event["steps"], event["at"], self._position
        for name, value in points:
            if (type(value) is bool or events.is_number(value)) and len(name) <= _LONGEST_KEY:
                self._points[name].append((step, at, float(value), position))

    def _row(self, table: str, event: Event, *values: object) -> None:
        self._rows[table].append((self._number, event["steps"], event["at"], *values, self._position))

    def _delete_void(self, void: Void) -> None:
        """Delete the rows of events that are void."""
        self._flush()
        for table in STEPPED:
            condition, limits = "step > ?", [void.step]
            if void.position is not None:
                kept = " AND source <> 'eval'" if table == "evaluations" else ""
                # A resumption is no event of the training that is repeated.
                kept = " AND kind <> 'resumed'" if table == "events" else kept
                condition, limits = f"({condition} OR position >= ?{kept})", [void.step, void.position]
            self._database.execute(f"DELETE FROM {table} WHERE run = ? AND {condition}", (self._number, *limits))
        best = "SELECT max(mean) FROM evaluations WHERE run = ? AND source = 'training'"
        self._changes["best"] = self._database.execute(best, (self._number,)).fetchone()[0]
        if void.position is not None:
            self._restore_checkpoint(void.position)

    def _restore_checkpoint(self, position: int) -> None:
        """Write the row of the checkpoint that the run goes on from: a void one of the same step had replaced it."""
        self._rewrite_checkpoint(journal.event_before(self._folder / journal.NAME, position), position - 1)

    def _rewrite_checkpoint(self, event: Event | None, position: int) -> None:
        if event is not None and event["event"] == "checkpoint" and not events.find_fault(event):
            after, self._position = self._position, position
            self._add_checkpoint(event)
            self._position = after

    def _flush(self) -> None:
        """Write all rows. Of two for the same key the later counts."""
        database = self._database
        numbers = database.key_numbers({name: storable(name) for name in self._points}.values())
        # In the table's own order, which is the fastest to write.
        points = sorted((numbers[storable(name)], found) for name, found in self._points.items())
        self._rows["metrics"] = [(self._number, number, *point) for number, found in points for point in found]
        for table, rows in self._rows.items():
            database.insert(table, _COLUMNS[table], rows, unique=_UNIQUE.get(table, ()))
            rows.clear()
        self._points.clear()
        if self._changes:
            columns = ", ".join(f"{name} = ?" for name in self._changes)
            database.execute(f"UPDATE runs SET {columns} WHERE number = ?", (*self._changes.values(), self._number))
            self._changes.clear()


def _run_columns(event: Event) -> dict[str, object]:
    """The columns of a run that each of its starts sets."""
    return {
        "name": storable(event["run"]),
        "host": storable(event["host"]),
        "process": event["process"],
        "env": storable(event["env"]),
        "seed": str(event["seed"]),
        "status": "running",
        "ended": None,
        "seen": event["at"],
        "config": json.dumps(event["config"]),
        "facts": json.dumps({key: event.get(key) for key in _FACTS}),
    }


_FACTS: Final = ("learner", "parameters", "threads", "versions", "git", "machine", "env_options", "initial_weights")


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
    yield from ((f"evaluation.{name}", found.get(name)) for name in _RESULTS)
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
