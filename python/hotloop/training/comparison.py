"""Comparison of a run with its repetition: checkpoints, records, events, status and replays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.errors import CheckpointError
from hotloop.files import UnreadableFileError, read_bytes
from hotloop.tracking import journal

if TYPE_CHECKING:
    from hotloop.training.checkpoint import Checkpoint

Event = dict[str, Any]
Key = tuple[str, int, str]

# Times differ between repetitions; so does which episodes a record has in detail. What an evaluation was made for
# follows from limits, which may have changed since.
_RECORD_SKIPPED: Final = {"seconds", "seconds_in", "steps_per_second", "time", "at", "sample", "confirms", "path"}
# Sums since the last record are made in pieces that the clock decides; limits may have changed since.
_COUNTERS_SKIPPED: Final = {
    "seconds",
    "env",
    "inference",
    "copy",
    "learn",
    "sample",
    "solved",
    "confirm_after",
    "journal_bytes",
}
_MANIFEST_SKIPPED: Final = {
    "date",
    "threads",
    "isa",
    "versions",
    "torch",
    "learner",
    "learners",
    "files",
    "sha256",
    "format",
}
_STATUS_COMPARED: Final = ("env", "seed", "steps", "iterations", "episodes", "return_mean", "best")
# Events on fixed counts of iterations; all others depend on the clock or the machine.
_REPEATED: Final = ("iteration", "evaluation", "checkpoint", "control")
_REPEATED_TROUBLES: Final = ("rolled-back", "not-finite", "return-collapsed")
# Means over a record are summed in pieces that the clock decides, so their last digits may differ.
_CLOSE: Final = 1e-6
_MOST: Final = 10


def difference(old: Any, new: Any, skipped: Iterable[str] = (), name: str = "") -> str | None:
    """Return the first difference of two nested values; floats may differ in their last digits."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if key not in skipped:
                found = difference(old.get(key), new.get(key), skipped, f"{name}.{key}".strip("."))
                if found is not None:
                    return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        parts = (difference(a, b, skipped, f"{name}[{i}]") for i, (a, b) in enumerate(zip(old, new, strict=True)))
        return next(filter(None, parts), None)
    if {float} <= {type(old), type(new)} <= {float, int}:
        if math.isclose(old, new, rel_tol=_CLOSE, abs_tol=1e-9) or (math.isnan(old) and math.isnan(new)):
            return None
    elif type(old) is type(new) and old == new:
        return None
    return f"{name} was {_short(old)}, is {_short(new)}"


def compare_checkpoints(kept: Checkpoint, repeated: Checkpoint, *, with_envs: bool) -> list[str]:
    """Return how a checkpoint differs from the repeated one: manifest, weights, optimiser, envs and counters."""
    at = f"the checkpoint at step {kept.steps}"
    found = []
    if kept.policy_bytes() != repeated.policy_bytes():
        found.append(f"{at}: the weights differ")
    # Before format 2 a manifest had no evaluation.
    skipped = _MANIFEST_SKIPPED | ({"evaluation", "best"} if kept.manifest["format"] == 1 else set())
    if (change := difference(kept.manifest, repeated.manifest, skipped)) is not None:
        found.append(f"{at}: {change}")
    try:
        (old, old_envs, old_counters), (new, new_envs, new_counters) = kept.state(), repeated.state()
    except CheckpointError as error:
        return [*found, str(error)]
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new or not _same_array(old[name], new[name]):
            found.append(f"{at}: the learner's state differs ({name})")
            break
    if with_envs and old_envs != new_envs:
        found.append(f"{at}: the state of the envs differs")
    if (change := difference(old_counters, new_counters, _COUNTERS_SKIPPED)) is not None:
        found.append(f"{at}: counters: {change}")
    return found


def read_events(path: Path) -> list[Event]:
    """Return the valid events of a journal; a `CheckpointError` if it cannot be read."""
    if not path.exists():
        return []
    try:
        # Refuses links and pipes, which would block.
        read_bytes(path)
        events = journal.read_all(path)
    except (UnreadableFileError, OSError) as error:
        raise CheckpointError(f"the run {path.parent} is damaged: {error}") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"the run {path.parent} is damaged: {path.name}: {error}") from None
    for event in events:
        if any(type(event.get(key, 0)) is not int for key in ("steps", "iterations")):
            raise CheckpointError(f"the run {path.parent} is damaged: {path.name}: a {event['event']} without steps")
    return events


def repeated_events(events: Iterable[Event], steps: int) -> list[tuple[Key, Event]]:
    """Return the events up to a step that a repetition has, too, with their keys."""
    found = []
    for event in events:
        kind = str(event.get("kind", "")) if event["event"] == "trouble" else ""
        repeats = event["event"] in _REPEATED or kind in _REPEATED_TROUBLES or event.get("back_to") is not None
        if repeats and event.get("steps", 0) <= steps:
            found.append(((str(event["event"]), event.get("iterations", 0), kind), event))
    return found


def compare_events(old: list[Event], new: list[Event], steps: int) -> tuple[int, list[str]]:
    """Return how many events up to a step were compared, and how they differ: changed, removed, added or reordered."""
    kept, again = repeated_events(old, steps), repeated_events(new, steps)
    repeated = dict(again)
    # A checkpoint is written again if an evaluation after it turns out to be the best: the last one counts.
    last_of = {key: event for key, event in kept if key[0] == "checkpoint"}
    kept = [(key, event) for key, event in kept if last_of.get(key, event) is event]
    more = Counter(key for key, _ in kept) - Counter(key for key, _ in again)
    found = [f"{_called(key)} is there {count} times too often" for key, count in more.items() if key in repeated]
    last = 0
    for key, event in kept:
        if key[1] < last:
            found.append(f"{_called(key)} stands after one of iteration {last}")
        last = max(last, key[1])
        if key not in repeated:
            found.append(f"{_called(key)} was not repeated")
        elif (change := difference(event, repeated[key], _RECORD_SKIPPED)) is not None:
            found.append(f"{_called(key)}: {change}")
    present = {key for key, _ in kept}
    found += [f"{_called(key)} is missing" for key in repeated if key not in present]
    return len(kept), found[:_MOST]


def compare_status(old: Mapping[str, Any], new: Mapping[str, Any], *, complete: bool) -> list[str]:
    """Return how `run.json` differs from the repetition's; of a run that did not end only what never changes."""
    names = _STATUS_COMPARED if complete else _STATUS_COMPARED[:2]
    found = (difference(old.get(name), new.get(name), (), name) for name in names)
    return [f"run.json: {each}" for each in found if each is not None]


def compare_replays(old: Path, new: Path, steps: int, *, ended: bool) -> list[str]:
    """Return the replays that differ, are missing or were added; those of a killed run after a step are left out."""
    kept, repeated = ({path.name: path for path in sorted(folder.glob("*.replay"))} for folder in (old, new))
    later = {name for name in kept if not ended and name.split("-")[0].isdecimal() and int(name.split("-")[0]) > steps}
    kept = {name: path for name, path in kept.items() if name not in later}
    # Later ones may have replaced them.
    found = [f"replays/{name} is missing" for name in repeated if name not in kept and not later]
    for name, path in kept.items():
        try:
            same = name in repeated and read_bytes(path) == read_bytes(repeated[name])
        except UnreadableFileError as error:
            found.append(f"replays/{name}: {error}")
            continue
        if not same:
            found.append(f"replays/{name} {'differs' if name in repeated else 'was not repeated'}")
    return found


def _same_array(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a.view(np.uint8), b.view(np.uint8)))


def _called(key: Key) -> str:
    event, iterations, kind = key
    return f"{kind or event} at iteration {iterations}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
