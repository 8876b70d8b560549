"""The thread that brings a running sweep's rows to the store; the journal stays the truth, and workers never wait."""

from __future__ import annotations

import os
import socket
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import StoreError
from hotloop.sweeps.display import trial_row
from hotloop.sweeps.results import importance
from hotloop.sweeps.sweep import Sweep, best_of, collect_trials
from hotloop.tracking.database import Database
from hotloop.tracking.sweeps import write_sweep

if TYPE_CHECKING:
    from hotloop.sweeps.results import Trial
    from hotloop.tracking.store_url import StoreUrl

_PACE: Final = 1.0


class StoreSync:
    """While entered, writes new results to the store about once a second, and the rest at the end."""

    def __init__(self, sweep: Sweep, url: StoreUrl | None) -> None:
        self._sweep, self._url = sweep, url
        self._written: dict[int, Trial] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="hotloop-sweep-store", daemon=True)
        self.failure: str | None = None
        """Why the store does not have the newest rows."""

    def __enter__(self) -> StoreSync:
        if self._url is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._url is not None:
            self._ending.set()
            self._thread.join()
            self._write("completed" if self._sweep.is_complete else "stopped")

    def _work(self) -> None:
        while not self._ending.wait(_PACE):
            self._write("running")

    def _write(self, status: str) -> None:
        assert self._url is not None
        sweep = self._sweep
        # A copy: results arrive meanwhile.
        trials = collect_trials(sweep.definition, dict(sweep.results))
        changed = [trial for trial in trials if self._written.get(trial.index) != trial]
        try:
            with Database(self._url) as database:
                write_sweep(database, self._row(trials, status), [_trial(sweep, trial) for trial in changed])
        except (StoreError, OSError) as error:
            self.failure = str(error)
        else:
            self.failure = None
            self._written |= {trial.index: trial for trial in changed}

    def _row(self, trials: list[Trial], status: str) -> dict[str, Any]:
        sweep, definition = self._sweep, self._sweep.definition
        best = best_of(definition, trials)
        found = None if best is None else trial_row(sweep, best)
        counts: dict[str, int] = {}
        for trial in trials:
            counts[trial.state] = counts.get(trial.state, 0) + 1
        return {
            "path": str(sweep.path.absolute()),
            "name": sweep.name,
            "host": socket.gethostname(),
            "process": os.getpid(),
            "env": definition.env,
            "sampler": definition.sampler,
            "metric": definition.sweep.metric,
            "status": status,
            "created": datetime.fromisoformat(sweep.folder.created).timestamp(),
            "seen": time.time(),
            "trials": definition.trials,
            "best": None if found is None else found["index"],
            "best_value": None
            if found is None
            else found["value"]
            if found["confirmed"] is None
            else found["confirmed"],
            "best_low": None if found is None else found["confirmed_low"],
            "best_high": None if found is None else found["confirmed_high"],
            "definition": definition.to_json(),
            "facts": {
                "counts": counts,
                "kept": sweep.kept,
                "promise": definition.promise,
                "importance": importance(definition.space, trials),
            },
        }


def _trial(sweep: Sweep, trial: Trial) -> dict[str, Any]:
    row = trial_row(sweep, trial)
    facts = {key: row[key] for key in ("why", "seeds", "sha256", "rungs", "cpu", "memory")}
    return {**row, "trial": row["index"], "facts": facts}
