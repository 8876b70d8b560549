"""The store as those see it who read: the runs there are, and everything that was recorded of each."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from hotloop.errors import StoreError, StoreReadOnlyError
from hotloop.tracking import journal, store_sync
from hotloop.tracking.database import Database
from hotloop.tracking.store_url import find_store_url

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

# The number of a metric by its name.
_KEY: Final = "(SELECT number FROM metric_keys WHERE name = ?)"
# A run elsewhere that has not been heard of for so many seconds is gone.
_SILENT: Final = 60.0


@dataclass(frozen=True)
class StoredRun:
    """A run as the store knows it."""

    number: int
    id: str
    name: str
    path: Path
    host: str
    process: int
    env: str
    seed: int
    status: str
    """`running`, `completed`, `stopped`, `failed`, or `gone`: it was running, and its process is no more."""
    ended: str | None
    """By which limit, or why it failed."""
    created: float
    seen: float
    seconds: float
    steps: int
    iterations: int
    episodes: int
    return_recent: float | None
    best: float | None
    config_text: str
    facts_text: str

    @cached_property
    def config(self) -> dict[str, dict[str, Any]]:
        """The whole config."""
        told: dict[str, dict[str, Any]] = json.loads(self.config_text)
        return told

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Versions, machine, revision of the code, learner."""
        told: dict[str, Any] = json.loads(self.facts_text)
        return told

    @property
    def whole_config(self) -> dict[str, Any]:
        """The config, with those options of a native env that were left as they are."""
        return {**self.config, "env": self.config["env"] | (self.facts.get("env_options") or {})}

    @property
    def settings(self) -> dict[str, Any]:
        """The whole config by dotted names."""
        parts = self.whole_config.items()
        return {f"{part}.{key}": value for part, values in parts for key, value in values.items()}


@dataclass(frozen=True)
class Series:
    """The points of one metric of one run, by step."""

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    """Seconds since 1970."""
    values: NDArray[np.float64]


class Store:
    """Reads a store. Before that it takes in what runs under `home` have recorded while it could not be written.

    Args:
        store: A file, a URL, or nothing for the one that is meant anyway.
        home: Where runs are kept; `HOTLOOP_HOME` or `~/.hotloop` by default.

    >>> from hotloop import train
    >>> run = train("cartpole", steps=2048, home=getfixture("tmp_path"))
    >>> with Store(home=getfixture("tmp_path")) as store:
    ...     [run.status for run in store.runs()]
    ['completed']
    """

    def __init__(self, store: str | Path | None = None, *, home: str | Path | None = None) -> None:
        under = Path(home or os.environ.get("HOTLOOP_HOME") or Path.home() / ".hotloop")
        url = find_store_url(store, under)
        if url is None:
            raise StoreError("the store is 'none': name one with --store or HOTLOOP_STORE")
        self.url = url
        self.notes: list[str] = []
        """What a person should know: that the store could not be brought up to date, say."""
        try:
            self._database = Database(url, create=url.is_default)
            try:
                self._catch_up(under / "runs")
            except BaseException:
                self._database.close()
                raise
        except StoreReadOnlyError as error:
            self.notes.append(f"{error}; what it has is shown")
            self._database = Database(url, read_only=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the database."""
        self._database.close()

    def _catch_up(self, folder: Path) -> None:
        """Feeds what lies in the folders of runs of this store and nobody is about to feed."""
        known = dict(self._asked("SELECT path, taken FROM runs"))
        for path in sorted(folder.glob(f"*/{journal.NAME}")):
            run = path.parent
            if known.get(str(run.absolute())) == path.stat().st_size:
                continue
            first = journal.find_start(path)
            if first is None or not self.url.is_of(first) or is_in_use(run):
                continue
            try:
                self.notes += store_sync.sync(self._database, run).damaged
                if str(run.absolute()) not in known:
                    store_sync.update_path(self._database, first["id"], run)
            except StoreReadOnlyError:
                raise
            except StoreError as error:
                self.notes.append(str(error))

    def _asked(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._database.translated_errors():
            rows: list[tuple[Any, ...]] = self._database.reconnected().execute(sql, parameters).fetchall()
            return rows

    def _named(self, sql: str, *parameters: object) -> list[dict[str, Any]]:
        with self._database.translated_errors():
            found = self._database.reconnected().execute(sql, parameters)
            names = [column[0] for column in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def runs(self) -> list[StoredRun]:
        """All of them, the newest first."""
        return [_stored(row) for row in self._named("SELECT * FROM runs ORDER BY created DESC, number DESC")]

    def find(self, text: str) -> StoredRun:
        """The run that a text means: an id or a name, the beginning of one that fits only one run, or `last`."""
        runs = self.runs()
        if not runs:
            raise StoreError(f"there is no run {text!r}: the store {self.url.shown} has none yet")
        if text == "last":
            return runs[0]
        given = Path(text)
        exact = [run for run in runs if text in (run.id, run.name)]
        exact = exact or [run for run in runs if given.is_absolute() and run.path == given]
        if exact:
            return exact[0]
        fitting = [run for run in runs if run.id.startswith(text) or run.name.startswith(text)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            more = f" and {len(fitting) - 3} more" if len(fitting) > 3 else ""
            names = ", ".join(f"{run.name} ({run.id})" for run in fitting[:3])
            raise StoreError(f"{text!r} could be any of {names}{more}: say more of the name or id")
        near = get_close_matches(text, [run.name for run in runs], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f" in {self.url.shown}"
        raise StoreError(f"there is no run {text!r}{hint}")

    def metric_names(self, run: StoredRun | None = None) -> list[str]:
        """The names of the metrics of a run, or of all."""
        if run is None:
            rows = self._asked("SELECT name FROM metric_keys ORDER BY name")
        else:
            rows = self._asked(
                "SELECT name FROM metric_keys WHERE EXISTS "
                "(SELECT 1 FROM metrics WHERE run = ? AND key = metric_keys.number) ORDER BY name",
                run.number,
            )
        return [name for (name,) in rows]

    def series(self, run: StoredRun, name: str) -> Series:
        """Every point of a metric."""
        import numpy as np

        rows = self._asked(
            f"SELECT step, time, value FROM metrics WHERE run = ? AND key = {_KEY} ORDER BY step", run.number, name
        )
        table = np.fromiter(chain.from_iterable(rows), np.float64, 3 * len(rows)).reshape(-1, 3)
        return Series(table[:, 0].astype(np.int64), table[:, 1].copy(), table[:, 2].copy())

    def latest(self, name: str) -> dict[int, float]:
        """The last value of a metric, by the number of the run."""
        rows = self._asked(
            f"WITH points AS (SELECT run, step, value FROM metrics WHERE key = {_KEY}) "
            "SELECT points.run, value FROM points "
            "JOIN (SELECT run, max(step) AS step FROM points GROUP BY run) AS last "
            "ON last.run = points.run AND last.step = points.step",
            name,
        )
        return {int(run): float(value) for run, value in rows}

    def points(self, run: StoredRun) -> list[tuple[str, int, float, float]]:
        """Every point of every metric: name, step, time, value."""
        return self._asked(
            "SELECT name, step, time, value FROM metrics JOIN metric_keys ON metric_keys.number = key "
            "WHERE run = ? ORDER BY key, step",
            run.number,
        )

    def evaluations(self, run: StoredRun) -> list[dict[str, Any]]:
        """How well the policy did, in training and by `hotloop eval`."""
        return self._rows("evaluations", run)

    def checkpoints(self, run: StoredRun) -> list[dict[str, Any]]:
        """Those that were written; older ones may be gone by now."""
        return self._rows("checkpoints", run)

    def events(self, run: StoredRun) -> list[dict[str, Any]]:
        """Faults, rollbacks, alerts."""
        return self._rows("events", run)

    def episodes(self, run: StoredRun) -> list[dict[str, Any]]:
        """Finished episodes, record by record, with a sample of each."""
        return self._rows("episodes", run)

    def resources(self, run: StoredRun) -> list[dict[str, Any]]:
        """Cores and memory over time, of the process, its workers, the machine and its GPUs."""
        return self._rows("resources", run)

    def _rows(self, table: str, run: StoredRun) -> list[dict[str, Any]]:
        """What a table has of a run, in order; facts and samples as they were told."""
        order = "step" if table in ("checkpoints", "episodes") else "time, number"
        rows = self._named(f"SELECT * FROM {table} WHERE run = ? ORDER BY {order}", run.number)
        return [
            {
                key: json.loads(value) if key in ("facts", "sample") else value
                for key, value in row.items()
                if key not in ("run", "number")
            }
            for row in rows
        ]

    def delete(self, run: StoredRun) -> None:
        """Removes a run and, if it lies on this machine, its folder. One that is running is refused."""
        if run.status == "running" or (_is_here(run) and is_in_use(run.path)):
            raise StoreError(f"the run {run.name!r} is running (process {run.process} on {run.host}): end it first")
        with Database(self.url, create=False) as database, database.translated_errors(), database.transaction():
            for table in store_sync.STEPPED:
                database.execute(f"DELETE FROM {table} WHERE run = ?", (run.number,))
            database.execute("DELETE FROM runs WHERE number = ?", (run.number,))
            # Only now: a store that cannot be written keeps the folder, too.
            if _is_here(run):
                shutil.rmtree(run.path)


def is_in_use(folder: Path) -> bool:
    """Whether a process trains the run in a folder: it holds the folder's lock for as long as it lives."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _is_here(run: StoredRun) -> bool:
    first = journal.find_start(run.path / journal.NAME)
    return first is not None and first["id"] == run.id


def _stored(row: Mapping[Any, Any]) -> StoredRun:
    told = {key: value for key, value in row.items() if key not in ("config", "facts", "taken")}
    told |= {"path": Path(row["path"]), "seed": int(row["seed"])}
    run = StoredRun(**told, config_text=row["config"], facts_text=row["facts"])
    if run.status != "running":
        return run
    alive = is_in_use(run.path) if _is_here(run) else time.time() - run.seen < _SILENT
    return run if alive else StoredRun(**{**vars(run), "status": "gone"})


def groups_of(runs: Iterable[StoredRun]) -> list[list[StoredRun]]:
    """Runs that differ in nothing but their seed, together, in the order in which the first of each comes."""
    found: dict[str, list[StoredRun]] = {}
    for run in runs:
        settings = {key: value for key, value in run.settings.items() if key not in _NO_DIFFERENCE}
        found.setdefault(json.dumps(settings, sort_keys=True), []).append(run)
    return list(found.values())


# Settings that are meant to differ between repetitions, or that never change a result.
_NO_DIFFERENCE: Final = {"train.seed", "runner.num_threads", "track.trackers"}
