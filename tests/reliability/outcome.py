"""Everything that a reader would believe of a finished run, and how two runs differ in it."""

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hotloop.tracking import journal
from hotloop.training.checkpoint import best_steps
from hotloop.training.policy_ladder import LADDER, LIVE, WATCHED

# Of records, evaluations and rows: when something was, how long it took, and which episodes the clock chose.
_TIMES = {"at", "time", "seconds", "seconds_in", "steps_per_second", "sample", "changed", "date", "process", "seen"}
# How far the journal was when a checkpoint was made: its lines have times in them.
_TIMES.add("journal_bytes")
# Means over a record are summed in the pieces in which it was collected: their last digits may differ.
_CLOSE = 1e-6
# Events of the machine and the process, not of the run.
_PASSING = ("resumed", "failed", "stalled", "store-away", "store-back", "disk-low", "tracker-failed")
_STORED = {
    "runs": "SELECT name, env, seed, status, ended, steps, iterations, episodes, return_recent, best, config FROM runs",
    "metrics": "SELECT metric_keys.name, step, value FROM metrics JOIN metric_keys ON number = key ORDER BY 1, 2",
    "episodes": "SELECT step, count, return_mean, return_std, return_min, return_max, length_mean FROM episodes",
    "evaluations": "SELECT step, source, mean, low, high, episodes, facts FROM evaluations ORDER BY step, facts",
    "checkpoints": "SELECT step, path, is_best FROM checkpoints ORDER BY step",
    "events": f"SELECT step, kind, level, what FROM events WHERE kind NOT IN {_PASSING} ORDER BY step, kind, what",
}


def of(home: Path, name: str = "run") -> dict[str, Any]:
    """The outcome of a run: files, weights, records, and rows of the store, without anything that the clock decides."""
    run = home / "runs" / name
    return {
        "files": sorted(str(path) for path in _files(run)),
        "config": (run / "config.yaml").read_text(),
        "status": {**_without_times(json.loads((run / "run.json").read_bytes())), "sha256": None},
        "best": best_steps(run / "checkpoints"),
        "weights": weights(run),
        "states": {path.parent.name: _state(path) for path in run.glob("checkpoints/*/state.safetensors")},
        "manifests": {path.parent.name: _manifest(path) for path in run.glob("checkpoints/*/manifest.json")},
        "replays": {path.name: _sum(path) for path in run.glob("replays/*")},
        "journal": records(run / journal.NAME),
        "store": stored(home / "hotloop.db"),
    }


def _files(run: Path) -> Iterator[Path]:
    """The files of a run's results; policies that are kept for watching depend on the clock."""
    found = (path.relative_to(run) for path in run.rglob("*") if path.is_file())
    return (path for path in found if path.parts[0] not in (LADDER, LIVE, WATCHED))


def weights(run: Path) -> dict[str, str]:
    """The checksums of the weights of all checkpoints of a run."""
    return {path.parent.name: _sum(path) for path in run.glob("checkpoints/*/policy.safetensors")}


def stored(path: Path) -> dict[str, list[Any]]:
    """The rows of a store with one run."""
    if not path.exists():
        return {}
    database = sqlite3.connect(path)
    try:
        tables = {table: database.execute(query).fetchall() for table, query in _STORED.items()}
    except sqlite3.Error as error:
        return {"error": [str(error)]}
    finally:
        database.close()
    timed = ("time.", "seconds", "steps_per_second")
    tables["metrics"] = [row for row in tables["metrics"] if not row[0].startswith(timed)]
    tables["evaluations"] = [(*row[:-1], _without_times(json.loads(row[-1]))) for row in tables["evaluations"]]
    return tables


def differences(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """Where two outcomes differ, one line for each part."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys(), key=str):
            yield from differences(expected.get(key), found.get(key), f"{where}.{key}".strip("."))
    elif isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        if len(expected) != len(found):
            lost = [row for row in expected if row not in found][:3]
            extra = [row for row in found if row not in expected][:3]
            yield f"{where}: {len(found)} instead of {len(expected)}, lacks {lost}, has {extra}"[:400]
        else:
            parts = zip(expected, found, strict=True)
            lines = (line for at, pair in enumerate(parts) for line in differences(*pair, f"{where}[{at}]"))
            yield from list(lines)[:2]
    elif not _equal(expected, found):
        yield f"{where}: {found!r} instead of {expected!r}"[:400]


def _equal(expected: Any, found: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(expected, found, rel_tol=_CLOSE, abs_tol=1e-9) or expected != expected != found
    return bool(expected == found)


def records(path: Path) -> list[Any]:
    """Return the events of a journal without values that depend on the clock or the machine."""
    # A run that ended more than once says so more than once; how it stands is in its status and in the store.
    events = ("iteration", "evaluation", "trouble")
    valid = (event for event in journal.read_all(path) if event["event"] in events)
    found = [_without_times(event) for event in valid if event.get("kind") not in _PASSING]
    return sorted(found, key=lambda event: (event["steps"], event["event"], json.dumps(event)))


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(entry) for key, entry in value.items() if key not in _TIMES}
    return [_without_times(entry) for entry in value] if isinstance(value, list) else value


def _sum(path: Path) -> str:
    """The checksum of a file; of a pipe or a socket in its place there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "not a file"


def _state(path: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    arrays = load_file(path)
    trainer = json.loads(arrays.pop("trainer").tobytes()) if "trainer" in arrays else None
    sums = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}
    return {**sums, "trainer": _without_times(trainer)}


def _manifest(path: Path) -> Any:
    manifest = _without_times(json.loads(path.read_bytes()))
    # The state has the seconds of training in it; `_state` looks at everything else there.
    del manifest["files"]["state.safetensors"], manifest["sha256"]
    return manifest
