"""Speed of runs by env, learner and version."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.tracking.store import Store, StoredRun

_PARTS: Final = ("time.env", "time.inference", "time.copy", "time.learn")
# Seconds of training below which a speed says little.
_SHORTEST: Final = 0.01


def _key(run: StoredRun) -> tuple[str, str, str]:
    learner = str(run.facts.get("learner") or "").partition(" ")[0].rstrip(":")
    versions = run.facts.get("versions") or {}
    return run.env, learner, str(versions.get("hotloop", ""))


def _timed(store: Store) -> list[StoredRun]:
    return [run for run in store.runs() if run.seconds > _SHORTEST and run.steps]


def summary(store: Store) -> list[dict[str, Any]]:
    """Median and best speed, cores in use and the parts of the time, of each env, learner and version."""
    parts = {name.removeprefix("time."): store.latest(name) for name in _PARTS}
    cores = _cores(store)
    groups: defaultdict[tuple[str, str, str], list[StoredRun]] = defaultdict(list)
    for run in _timed(store):
        groups[_key(run)].append(run)
    found = []
    for (env, learner, version), runs in sorted(groups.items()):
        speeds = [run.steps / run.seconds for run in runs]
        used = [cores[run.number] for run in runs if run.number in cores]
        found.append(
            {
                "env": env,
                "learner": learner,
                "version": version,
                "runs": len(runs),
                "steps_per_second": statistics.median(speeds),
                "best_steps_per_second": max(speeds),
                "cores": statistics.fmean(used) if used else None,
                "split": _split(parts, runs),
            }
        )
    return found


def _cores(store: Store) -> dict[int, float]:
    rows = store.query("SELECT run, avg(cpu) FROM resources WHERE who = 'process' AND cpu IS NOT NULL GROUP BY run")
    return {int(run): float(cpu) for run, cpu in rows}


def _split(parts: dict[str, dict[int, float]], runs: Sequence[StoredRun]) -> dict[str, float]:
    sums = {name: sum(values.get(run.number, 0.0) for run in runs) for name, values in parts.items()}
    total = sum(sums.values())
    return {name: value / total for name, value in sums.items() if value} if total > 0 else {}


def trends(store: Store) -> list[dict[str, Any]]:
    """The speed of every run over time, by env and learner."""
    groups: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in sorted(_timed(store), key=lambda run: run.created):
        env, learner, version = _key(run)
        groups[env, learner].append(
            {"time": run.created, "version": version, "steps_per_second": run.steps / run.seconds, "run": run.id}
        )
    return [{"env": env, "learner": learner, "points": points} for (env, learner), points in sorted(groups.items())]
