"""Reading a store: its runs, and everything that was recorded of each."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from hotloop.errors import AmbiguousRunError, NoSuchRunError, QueryError, StoreError, StoreReadOnlyError
from hotloop.text import storable
from hotloop.tracking import journal, store_sync
from hotloop.tracking.database import Database, damaged_store
from hotloop.tracking.store_url import FILE, find_store_url, runs_folder

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

# The number of a metric by its name.
KEY_NUMBER: Final = "(SELECT number FROM metric_keys WHERE name = ?)"
# Seconds without a sign of life after which a run on another machine is gone.
_SILENT: Final = 60.0
# Columns that only some readers need, and that are longer than all others together.
_TEXTS: Final = ("config", "facts")


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
    """`running`, `completed`, `stopped`, `failed`, or `gone`: its process died without finishing."""
    ended: str | None
    """The limit that ended it, or why it failed."""
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
        return self._parse(self.config_text)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Versions, machine, revision of the code, learner."""
        return self._parse(self.facts_text)

    def _parse(self, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise StoreError(f"the store's row of the run {self.name!r} is damaged: delete the run from the store")
        return found

    @property
    def whole_config(self) -> dict[str, Any]:
        """The config, with the defaults of the env's options."""
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
    """A store to read from, by any number of threads: each has a connection of its own.

    Unless it is opened with `read_only`, journals under `home` that the store does not have yet are read first.

    Args:
        store: A file or a URL; `HOTLOOP_STORE` or the home's own store by default.
        home: Where runs are kept; `HOTLOOP_HOME` or `~/.hotloop` by default.
        read_only: Never write to the store.
        query_limit: Seconds after which a query is given up.

    >>> from hotloop import train
    >>> run = train("cartpole", steps=2048, home=getfixture("tmp_path"))
    >>> with Store(home=getfixture("tmp_path")) as store:
    ...     [run.status for run in store.runs()]
    ['completed']
    """

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        home: str | Path | None = None,
        read_only: bool = False,
        query_limit: float | None = None,
    ) -> None:
        under = Path(home or os.environ.get("HOTLOOP_HOME") or Path.home() / ".hotloop")
        url = find_store_url(store, under)
        if url is None:
            raise StoreError("the store is 'none': name one with --store or HOTLOOP_STORE")
        self.url = url
        self.notes: list[str] = []
        """Notices for a person: that the store could not be brought up to date, that a journal is damaged."""
        self._local = threading.local()
        self._connections: list[Database] = []
        self._read_only = read_only
        self._query_limit = query_limit
        self._runs_folder = runs_folder(under)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        """Holds the store if it cannot be made in its own folder."""
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Open the store and bring it up to date; where it cannot be written, read what there is."""
        try:
            _ = self._database
            if not self._read_only:
                self.catch_up()
        except StoreReadOnlyError as error:
            self.close()
            self._local = threading.local()
            assert self.url.file is not None
            if self.url.file.exists():
                self.notes.append(f"{error}; showing the records it has")
                self._read_only = True
                _ = self._database
            else:
                self.notes.append(f"{error}; showing the records in the folders of runs")
                self._temporary = tempfile.TemporaryDirectory(prefix="hotloop-")
                self.catch_up()

    @property
    def _database(self) -> Database:
        """The connection of the calling thread."""
        found: Database | None = getattr(self._local, "database", None)
        if found is None:
            instead = None if self._temporary is None else Path(self._temporary.name) / FILE
            found = Database(
                self.url,
                # Only at first: a store that is deleted later must not come back empty.
                create=(self.url.is_default and not self._connections) or instead is not None,
                read_only=self._read_only,
                query_limit=self._query_limit,
                instead=instead,
            )
            self._local.database = found
            self._connections.append(found)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of all threads."""
        while self._connections:
            self._connections.pop().close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def catch_up(self) -> None:
        """Read the journals of this store's runs that no process is about to bring to it."""
        known = dict(self.query("SELECT path, taken FROM runs"))
        for run in sorted(path for path in self._runs_folder.glob("*") if path.is_dir()):
            path, taken = run / journal.NAME, known.get(str(run.absolute()))
            try:
                self._catch_up_with(run, path, taken)
            except StoreReadOnlyError:
                raise
            except FileNotFoundError:
                if (run / "config.yaml").exists() and not is_in_use(run):
                    self._note_journal(run, f"{path} is missing", taken)
            except (StoreError, OSError) as error:
                self.notes.append(f"the run {run.name!r}: {error}")

    def _catch_up_with(self, run: Path, path: Path, taken: int | None) -> None:
        size = path.lstat().st_size
        if taken == size:
            return
        start = journal.find_start(path)
        if start is None:
            if not is_in_use(run):
                first = next((line for line in journal.read_lines(path) if line.damage), None)
                damage = "" if first is None else f" (line {journal.line_number(path, first.start)}: {first.damage})"
                self._note_journal(run, f"{path} has no readable start{damage}", taken)
            return
        if not self.url.is_of(start) or is_in_use(run):
            return
        if taken is not None and size < taken:
            self.notes.append(f"the run {run.name!r} is shown as the store has it: {path} lost {taken - size} bytes")
            return
        self.notes += store_sync.sync(self._database, run).damaged
        if taken is None:
            store_sync.update_path(self._database, start["id"], run)

    def _note_journal(self, run: Path, why: str, taken: int | None) -> None:
        shown = "cannot be listed" if taken is None else "is shown as the store has it"
        self.notes.append(f"the run {run.name!r} {shown}: {why}; 'hotloop train --resume {run.name}' writes a new one")

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows that a statement finds."""
        with self._database.translated_errors():
            rows: list[tuple[Any, ...]] = self._database.reconnected().execute(sql, _storable(parameters)).fetchall()
            return rows

    def query_named(self, sql: str, *parameters: object) -> list[dict[str, Any]]:
        """The rows that a statement finds, by the names of their columns."""
        with self._database.translated_errors():
            found = self._database.reconnected().execute(sql, _storable(parameters))
            names = [column[0] for column in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    @property
    def schema_version(self) -> int:
        """The version of the tables; a store that is only read may have an older one."""
        return self._database.version

    @property
    def read_only(self) -> bool:
        """Whether it is never written to, because that was asked for or cannot be."""
        return self._read_only

    def floor(self, expression: str) -> str:
        """SQL for the whole part of a number that is not negative."""
        return self._database.floor(expression)

    def runs(self, *, with_config: bool = True, numbers: Sequence[int] | None = None) -> list[StoredRun]:
        """Runs, the newest first: all of them, or those of these numbers. Without the config much is quicker."""
        columns = [name for name in _COLUMNS if with_config or name not in _TEXTS]
        found: list[dict[str, Any]] = []
        for some in [None] if numbers is None else [numbers[i : i + 500] for i in range(0, len(numbers), 500)]:
            where = "" if some is None else f" WHERE number IN ({', '.join('?' * len(some))})"
            found += self.query_named(f"SELECT {', '.join(columns)} FROM runs{where}", *(some or ()))
        found.sort(key=lambda row: (row["created"], row["number"]), reverse=True)
        return [_to_run(row) for row in found]

    def find(self, text: str) -> StoredRun:
        """The run that a text names: an id or a name, the beginning of one that fits only one run, or `last`."""
        runs = self.runs(with_config=False)
        return self.runs(numbers=[self._choose(runs, text).number])[0]

    def find_all(self, texts: Sequence[str]) -> list[StoredRun]:
        """The runs that texts name, each once; a text with `*` in it names every run whose name matches."""
        runs = self.runs(with_config=False)
        numbers: dict[int, None] = {}
        for text in texts:
            matching = [run for run in runs if fnmatchcase(run.name, text)] if "*" in text else []
            if "*" in text and not matching:
                raise QueryError(f"no run has a name like {text!r}")
            numbers |= {run.number: None for run in matching or [self._choose(runs, text)]}
        found = {run.number: run for run in self.runs(numbers=list(numbers))}
        return [found[number] for number in numbers]

    def _choose(self, runs: Sequence[StoredRun], text: str) -> StoredRun:
        if not runs:
            raise NoSuchRunError(f"there is no run {text!r}: the store {self.url.shown} has none yet")
        if text == "last":
            return runs[0]
        given = Path(text)
        exact = [run for run in runs if text in (run.id, run.name)]
        exact = exact or [run for run in runs if given.is_absolute() and run.path == given]
        if exact:
            return exact[0]
        matching = [run for run in runs if run.id.startswith(text) or run.name.startswith(text)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            more = f" and {len(matching) - 3} more" if len(matching) > 3 else ""
            names = ", ".join(f"{run.name} ({run.id})" for run in matching[:3])
            candidates = [run.name for run in matching[:20]]
            raise AmbiguousRunError(f"{text!r} could be any of {names}{more}: say more of the name or id", candidates)
        near = get_close_matches(text, [run.name for run in runs], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f" in {self.url.shown}"
        raise NoSuchRunError(f"there is no run {text!r}{hint}", near)

    def metric_names(self, run: StoredRun | None = None) -> list[str]:
        """The names of the metrics of a run, or of all runs."""
        if run is None:
            rows = self.query("SELECT name FROM metric_keys ORDER BY name")
        else:
            rows = self.query(
                "SELECT name FROM metric_keys WHERE EXISTS "
                "(SELECT 1 FROM metrics WHERE run = ? AND key = metric_keys.number) ORDER BY name",
                run.number,
            )
        return [name for (name,) in rows]

    def series(self, run: StoredRun, name: str) -> Series:
        """Every point of a metric."""
        import numpy as np

        rows = self.query(
            f"SELECT step, time, value FROM metrics WHERE run = ? AND key = {KEY_NUMBER} ORDER BY step",
            run.number,
            name,
        )
        table = np.fromiter(chain.from_iterable(rows), np.float64, 3 * len(rows)).reshape(-1, 3)
        return Series(table[:, 0].astype(np.int64), table[:, 1].copy(), table[:, 2].copy())

    def latest(self, name: str) -> dict[int, float]:
        """The last value of a metric, by the number of the run."""
        # One look into the table's own order per run, however many points there are.
        rows = self.query(
            "SELECT number, value FROM (SELECT number, (SELECT value FROM metrics "
            f"WHERE run = runs.number AND key = {KEY_NUMBER} ORDER BY step DESC LIMIT 1) AS value FROM runs) AS last "
            "WHERE value IS NOT NULL",
            name,
        )
        return {int(run): float(value) for run, value in rows}

    def points(self, run: StoredRun) -> list[tuple[str, int, float, float]]:
        """Every point of every metric: name, step, time, value."""
        return self.query(
            "SELECT name, step, time, value FROM metrics JOIN metric_keys ON metric_keys.number = key "
            "WHERE run = ? ORDER BY key, step",
            run.number,
        )

    def evaluations(self, run: StoredRun) -> list[dict[str, Any]]:
        """Evaluations, in training and by `hotloop eval`."""
        return self._rows("evaluations", run)

    def checkpoints(self, run: StoredRun) -> list[dict[str, Any]]:
        """Checkpoints that were saved; older ones may have been removed since."""
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
        """The rows of a table for a run, in order, with facts and samples parsed."""
        order = "step" if table in ("checkpoints", "episodes") else "time, number"
        rows = self.query_named(f"SELECT * FROM {table} WHERE run = ? ORDER BY {order}", run.number)
        return [
            {
                key: self._parse(f"{table}.{key}", value) if key in ("facts", "sample") else value
                for key, value in row.items()
                if key not in ("run", "number", "position")
            }
            for row in rows
        ]

    def _parse(self, name: str, text: str) -> Any:
        """The JSON of a column."""
        try:
            found = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            found = None
        if not isinstance(found, list if name.endswith("sample") else dict):
            raise damaged_store(self.url, f"{name} holds an invalid value")
        return found

    def find_damage(self) -> str | None:
        """Return the problem of the store's file, to explain an error; `None` if there is none."""
        from hotloop.tracking.store_check import find_damage

        if self.url.file is None:
            return None
        try:
            with self._database.translated_errors():
                damage = find_damage(self._database)
        except StoreError as error:
            return str(error)
        return None if damage is None else str(damaged_store(self.url, damage))

    def delete(self, run: StoredRun) -> None:
        """Delete a run and, if it lies on this machine, its folder. A running one is refused."""
        if run.status == "running" or (is_here(run) and is_in_use(run.path)):
            raise StoreError(f"the run {run.name!r} is running (process {run.process} on {run.host}): end it first")
        with Database(self.url, create=False) as database, database.translated_errors(), database.transaction():
            for table in (*store_sync.STEPPED, "marks"):
                database.execute(f"DELETE FROM {table} WHERE run = ?", (run.number,))
            database.execute("DELETE FROM runs WHERE number = ?", (run.number,))
            # Only now: a store that cannot be written keeps the folder, too.
            if is_here(run):
                shutil.rmtree(run.path)


def _storable(parameters: tuple[object, ...]) -> tuple[object, ...]:
    """Parameters that both databases take: a name with other characters is never found, and is no error."""
    return tuple(storable(value) if isinstance(value, str) else value for value in parameters)


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


def is_here(run: StoredRun) -> bool:
    """Whether a run's folder is on this machine."""
    first = journal.find_start(run.path / journal.NAME)
    return first is not None and first["id"] == run.id


_COLUMNS: Final = (*(field.name for field in fields(StoredRun) if not field.name.endswith("_text")), *_TEXTS)


def _to_run(row: Mapping[Any, Any]) -> StoredRun:
    columns = {key: value for key, value in row.items() if key not in _TEXTS}
    columns |= {"path": Path(row["path"]), "seed": int(row["seed"])}
    run = StoredRun(**columns, config_text=row.get("config", ""), facts_text=row.get("facts", ""))
    if run.status != "running":
        return run
    alive = is_in_use(run.path) if is_here(run) else time.time() - run.seen < _SILENT
    return run if alive else replace(run, status="gone")
