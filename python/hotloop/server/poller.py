"""The one thread that follows the store while anyone listens, and publishes what changes.

Nothing of a run's results passes through here: clients that miss an event read everything again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import StoreError
from hotloop.server.rows import evaluation
from hotloop.tracking.queries import tail
from hotloop.tracking.row_pages import last_steps, rows_from
from hotloop.tracking.store import StoredRun, is_here
from hotloop.training.checkpoint import checkpoint_paths
from hotloop.training.policy_ladder import LIVE

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.server.hub import Hub
    from hotloop.server.rows import RowMaker
    from hotloop.tracking.run_cache import CachedStore

_log = logging.getLogger("hotloop.server")

# Seconds between looks at whether a file has changed, which cost nothing.
_LOOK_EVERY: Final = 0.25
# Seconds between looks at a server, and for processes that died.
_SWEEP_EVERY: Final = 2.0
# Points of a metric that one event has at most.
MOST_POINTS: Final = 200
# Seconds for which a run that nobody watches any more can be watched again without a gap.
_REMEMBERED: Final = 300.0
ALERT_LEVELS: Final = ("warning", "error")


@dataclass
class Watched:
    """Position up to which a watched run was published."""

    position: int
    steps: dict[str, int]
    """The last step of each metric."""
    files: frozenset[str] = frozenset()
    live_step: int | None = None
    at: float = field(default_factory=time.monotonic)


class Poller(threading.Thread):
    """Follows the store."""

    def __init__(self, store: CachedStore, rows: RowMaker, hub: Hub) -> None:
        super().__init__(name="hotloop-poller", daemon=True)
        self._store = store
        self._rows = rows
        self._hub = hub
        self._closing = threading.Event()
        self._published: dict[str, StoredRun] | None = None
        self._positions: dict[str, int] = {}
        self._watched: dict[str, Watched] = {}
        self._watching = threading.Lock()
        self._version: int | None = None
        self._swept = 0.0
        self._is_away = False
        self.lag: float | None = None
        """Seconds that the last look took."""

    def watch(self, run: StoredRun) -> bool:
        """Publish a run's points from now on; return whether it was being followed without a gap until now."""
        with self._watching:
            known = run.id in self._watched
            if not known:
                self._watched[run.id] = Watched(self._store.position(run), last_steps(self._store, run))
            self._watched[run.id].at = time.monotonic()
        return known

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._hub.active.set()
        self.join()

    def run(self) -> None:
        """Poll while anyone listens."""
        while not self._closing.is_set():
            self._hub.active.wait()
            if self._closing.is_set():
                return
            begun = time.monotonic()
            try:
                if self._is_due():
                    self.poll()
                    self.lag = time.monotonic() - begun
                self._note_away(None)
            except (StoreError, OSError) as error:
                self._note_away(error)
            except Exception:
                # A defect must not end what every client depends on; a sweep tries again.
                _log.exception("the poller failed")
            self._closing.wait(_LOOK_EVERY)

    def _note_away(self, error: Exception | None) -> None:
        """Tell clients that the store is away, or that it is back."""
        if (error is not None) != self._is_away:
            self._is_away = error is not None
            since = self._store.away_since or time.time()
            value = {"away_since": since if self._is_away else None, "why": None if error is None else str(error)}
            self._hub.publish("runs", "store", value)
            self._version = None

    def _is_due(self) -> bool:
        now = time.monotonic()
        changed = False
        if self._store.url.file is not None:
            ((version,),) = self._store.query("PRAGMA data_version")
            changed, self._version = version != self._version, version
        if not changed and now - self._swept < _SWEEP_EVERY:
            return False
        self._swept = now
        return True

    def poll(self) -> None:
        """Publish all changes since the last time."""
        runs = self._store.runs(with_config=False)
        if self._store.away_since is not None:
            raise StoreError("the store is away")
        by_id = {run.id: run for run in runs}
        before, self._published = self._published, by_id
        positions, self._positions = self._positions, {run.id: self._store.position(run) for run in runs}
        if before is None:
            return
        changed = [run for run in runs if before.get(run.id) is not run and before.get(run.id) != run]
        for run_id in before.keys() - by_id.keys():
            self._hub.publish("runs", "deleted", {"run": run_id})
            self._hub.publish(f"run:{run_id}", "deleted", {"run": run_id})
        if changed:
            self._hub.publish("runs", "runs", {"runs": self._rows.rows(changed, with_sparklines=False)})
        for run in changed if "alerts" in self._hub.topics() else ():
            if self._positions[run.id] != positions.get(run.id):
                self._publish_alerts(run, positions.get(run.id, 0))
        self._follow_watched(by_id)

    def _publish_alerts(self, run: StoredRun, position: int) -> None:
        for row in rows_from(self._store, "events", run, position):
            if row["level"] in ALERT_LEVELS:
                alert = {**row, "run": run.id, "run_name": run.name, "env": run.env, "seen": False}
                self._hub.publish("alerts", "alert", {"alert": alert})

    def _follow_watched(self, runs: dict[str, StoredRun]) -> None:
        topics, now = self._hub.topics(), time.monotonic()
        with self._watching:
            for run_id, watched in list(self._watched.items()):
                if f"run:{run_id}" in topics:
                    watched.at = now
                elif now - watched.at > _REMEMBERED or run_id not in runs:
                    del self._watched[run_id]
            following = list(self._watched.items())
        for run_id, watched in following:
            if f"run:{run_id}" in topics and (run := runs.get(run_id)) is not None:
                self._follow(run, watched)

    def _follow(self, run: StoredRun, watched: Watched) -> None:
        """Publish the news of one run."""
        topic, position = f"run:{run.id}", self._positions[run.id]
        if position != watched.position:
            events = rows_from(self._store, "events", run, watched.position)
            self._rewind(run, watched, events)
            self._publish_points(run, watched)
            for row in events:
                self._hub.publish(topic, "event", {"run": run.id, "event": row})
            for row in rows_from(self._store, "evaluations", run, watched.position):
                self._hub.publish(topic, "evaluation", {"run": run.id, "evaluation": evaluation(row)})
            for row in rows_from(self._store, "checkpoints", run, watched.position):
                self._hub.publish(topic, "checkpoint", {"run": run.id, "step": row["step"], "time": row["time"]})
            if rows_from(self._store, "resources", run, watched.position):
                self._hub.publish(topic, "resources", {"run": run.id})
            self._hub.publish(topic, "runs", {"runs": self._rows.rows([run], with_sparklines=False)})
            watched.position = position
        if is_here(run):
            self._look_at_files(run, watched)

    def _rewind(self, run: StoredRun, watched: Watched, events: list[dict[str, Any]]) -> None:
        """Publish that a run went back, by resuming or a rollback: what lies behind that step is void."""
        steps = [row["step"] for row in events if row["kind"] in ("resumed", "rolled-back")]
        if steps:
            step = min(steps)
            watched.steps = {name: min(last, step) for name, last in watched.steps.items()}
            self._hub.publish(f"run:{run.id}", "rewind", {"run": run.id, "step": step})

    def _publish_points(self, run: StoredRun, watched: Watched) -> None:
        topic = f"run:{run.id}"
        newest = last_steps(self._store, run)
        wanted = self._hub.metrics(topic)
        by_step: defaultdict[int, list[str]] = defaultdict(list)
        for name, step in newest.items():
            if step > (last := watched.steps.get(name, -1)):
                by_step[last].append(name)
        points: dict[str, list[tuple[int, float, float]]] = {}
        for last, names in by_step.items():
            points |= tail(self._store, run, [name for name in names if not wanted or name in wanted], last)
        watched.steps |= newest
        reload = [name for name, found in points.items() if len(found) > MOST_POINTS]
        few = {name: found for name, found in points.items() if 0 < len(found) <= MOST_POINTS}
        if reload:
            self._hub.publish(topic, "reload", {"run": run.id, "metrics": reload})
        if few:
            self._hub.publish(topic, "points", {"run": run.id, "points": few})

    def _look_at_files(self, run: StoredRun, watched: Watched) -> None:
        names = _names(run.path / "replays", ".replay")
        if watched.files:
            for name in sorted(names - watched.files):
                self._hub.publish(f"run:{run.id}", "replay", {"run": run.id, "name": name})
        watched.files = names
        newest = max((int(path.name) for path in checkpoint_paths(run.path / LIVE)), default=None)
        if newest is not None and newest != watched.live_step:
            self._hub.publish(f"run:{run.id}", "policy", {"run": run.id, "step": newest})
        watched.live_step = newest


def _names(folder: Path, suffix: str) -> frozenset[str]:
    try:
        return frozenset(path.name for path in folder.iterdir() if path.name.endswith(suffix))
    except OSError:
        return frozenset()
