"""A connection to a store, thinly over the database's own driver.

An SQL toolkit would take longer to import than many a run takes, and a few plain statements are all that is needed.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from hotloop.errors import QueryError, StoreAwayError, StoreError, StoreReadOnlyError
from hotloop.tracking import migrations

if TYPE_CHECKING:
    from types import TracebackType

    from hotloop.tracking.store_url import StoreUrl

# Seconds to wait for other writers of the same file, and for a server to answer.
TIMEOUT: Final = 5.0
# The key of PostgreSQL's advisory lock during an upgrade.
_LOCK_KEY: Final = 0x686F746C
# Operations of SQLite's machine between looks at the clock: about a millisecond.
_OPERATIONS: Final = 50_000
# Rows that one statement inserts into SQLite: one by one they take twice as long.
_ROWS_AT_ONCE: Final = 32


class Database:
    """A connection. SQL is the same for both databases; parameters are marked with `?`.

    Args:
        url: The store.
        create: Whether a missing file is created.
        read_only: Never write: no migration, and no files beside the database where its folder is read-only.
        timeout: Seconds to wait for other writers, and for a server to answer.
        query_limit: Seconds after which a statement is given up with a `QueryError`.
        instead: A file to use in place of the store's own.
    """

    def __init__(
        self,
        url: StoreUrl,
        *,
        create: bool = True,
        read_only: bool = False,
        timeout: float = TIMEOUT,
        query_limit: float | None = None,
        instead: Path | None = None,
    ) -> None:
        self.url = url
        self._file = instead or url.file
        self._is_sqlite = url.file is not None
        self._read_only = read_only
        self._create, self._timeout = create and not read_only, timeout
        self._query_limit, self._deadline = query_limit, math.inf
        self._keys: dict[str, int] = {}
        self._is_snapshot = False
        self._copied: tempfile.TemporaryDirectory[str] | None = None
        self._signature: tuple[int, ...] = ()
        self._open()

    def _open(self) -> None:
        with self.translated_errors():
            self._connection = self._open_file() if self._is_sqlite else self._open_server()
        try:
            if self._is_sqlite:
                self._signature = self._read_signature()
                if self._query_limit is not None:
                    self._connection.set_progress_handler(lambda: time.monotonic() > self._deadline, _OPERATIONS)
            with self.translated_errors():
                self._upgrade()
        except BaseException:
            self.close()
            raise

    def reconnected(self) -> Self:
        """This connection, reopened if the server went away, or the file is not the one (or as it was) when opened."""
        is_stale = self._signature != self._read_signature() if self._is_sqlite else self._connection.closed
        if is_stale:
            self.close()
            self._open()
        return self

    def _read_signature(self) -> tuple[int, ...]:
        """The identity of the file; of one that was taken as it stood, it changes with every write."""
        assert self._file is not None
        try:
            status = self._file.stat()
        except FileNotFoundError:
            raise StoreAwayError(f"the store {self.url.shown} is gone: its file was deleted or moved") from None
        if not self._is_snapshot:
            return (status.st_ino,)
        log = _log_of(self._file)
        facts = [status, *([log.stat()] if log.exists() else [])]
        return tuple(number for each in facts for number in (each.st_ino, each.st_mtime_ns, each.st_size))

    @property
    def identity(self) -> tuple[int, ...]:
        """The file that is open; another one may be put in its place."""
        return self._signature

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _open_file(self) -> Any:
        file = self._file
        assert file is not None
        if not file.exists():
            if not self._create:
                raise StoreAwayError(f"there is no store {file}")
            if self.url.is_default:
                file.parent.mkdir(parents=True, exist_ok=True)
            elif not file.parent.is_dir():
                raise StoreError(f"cannot make the store {file}: there is no folder {file.parent}")
        if self._read_only:
            return self._open_file_read_only(file)
        connection = sqlite3.connect(file, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_file_read_only(self, file: Path) -> Any:
        # Readers of a log (WAL) need files beside the database. Where those cannot be made, a file without a log is
        # taken as immutable, since nobody is writing, and one with a log is copied together with it.
        log = _log_of(file)
        if log.exists() or os.access(file.parent, os.W_OK):
            try:
                return self._connect_read_only(file, "mode=ro")
            except sqlite3.OperationalError as error:
                if "unable to open" not in str(error):
                    raise
        if log.exists():
            self._copied = tempfile.TemporaryDirectory(prefix="hotloop-")
            copy = Path(self._copied.name) / file.name
            shutil.copyfile(file, copy)
            shutil.copyfile(log, _log_of(copy))
            connection = self._connect_read_only(copy, "mode=rw")
        else:
            connection = self._connect_read_only(file, "mode=ro&immutable=1")
        self._is_snapshot = True
        return connection

    def _connect_read_only(self, file: Path, options: str) -> Any:
        address = f"{file.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(
            address, uri=True, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_server(self) -> Any:
        import psycopg

        assert self.url.url is not None
        # Keepalives also detect a server that vanished without closing the connection.
        return psycopg.connect(
            self.url.url,
            autocommit=True,
            connect_timeout=max(2, round(self._timeout)),
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
            application_name="hotloop",
            client_encoding="utf8",
            options=" ".join(
                [
                    *(["-c default_transaction_read_only=on"] if self._read_only else []),
                    *([f"-c statement_timeout={self._query_limit * 1000:.0f}"] if self._query_limit else []),
                ]
            ),
        )

    def _upgrade(self) -> None:
        """Bring the schema to the newest version; of several processes one does it."""
        newest = len(migrations.MIGRATIONS)
        found = self._version()
        if found > newest:
            raise _newer_store(self.url, found)
        if found == 0 and self._read_only:
            raise _foreign_store(self.url)
        self.version = found
        if found == newest or self._read_only:
            # Migrations only add, so that readers understand every older version.
            return
        kind = "sqlite" if self._is_sqlite else "postgresql"
        with self.transaction():
            if not self._is_sqlite:
                self.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK_KEY,))
            version = self._version()
            if version == 0:
                if self._is_sqlite and self.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise _foreign_store(self.url)
                self.execute("CREATE TABLE hotloop_store (version BIGINT NOT NULL)")
                self.execute("INSERT INTO hotloop_store VALUES (0)")
            for migration in migrations.MIGRATIONS[version:]:
                for statement in migration:
                    self.execute(statement.format(**migrations.WORDS[kind]))
            self.execute("UPDATE hotloop_store SET version = ?", (newest,))
        self.version = newest

    def _version(self) -> int:
        """The version of the schema; 0 if there is none."""
        table = (
            "SELECT count(*) FROM sqlite_master WHERE name = 'hotloop_store'"
            if self._is_sqlite
            else "SELECT count(*) FROM information_schema.tables "
            "WHERE table_schema = current_schema() AND table_name = 'hotloop_store'"
        )
        if not self.execute(table).fetchone()[0]:
            return 0
        row = self.execute("SELECT version FROM hotloop_store").fetchone()
        return 0 if row is None else int(row[0])

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """Execute one statement and return the cursor."""
        if self._query_limit is not None:
            self._deadline = time.monotonic() + self._query_limit
        return self._connection.execute(self._placeholders(sql), parameters)

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, unique: Sequence[str] = ()
    ) -> None:
        """Insert rows; a row that exists already, by its unique columns, is replaced."""
        if not rows:
            return
        values, replacing = f"({', '.join('?' * len(columns))})", ""
        if unique:
            rest = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in unique)
            replacing = f" ON CONFLICT ({', '.join(unique)}) DO UPDATE SET {rest}"
        cursor = self._connection.cursor()
        # A server refuses to replace a row twice in one statement, and gets many of them in one go anyway.
        many = _ROWS_AT_ONCE if self._is_sqlite else 1
        whole = len(rows) - len(rows) % many
        for size, part in ((many, rows[:whole]), (1, rows[whole:])):
            if part:
                sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([values] * size)}{replacing}"
                joined = (tuple(chain.from_iterable(part[i : i + size])) for i in range(0, len(part), size))
                cursor.executemany(self._placeholders(sql), joined)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction. Nobody else writes to an SQLite file meanwhile."""
        if not self._is_sqlite:
            with self._connection.transaction():
                yield
            return
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self.execute("ROLLBACK")
            raise

    def key_numbers(self, names: Iterable[str]) -> dict[str, int]:
        """The numbers of metrics by name; new names get one."""
        if missing := set(names) - self._keys.keys():
            for name in sorted(missing):
                self.execute("INSERT INTO metric_keys (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (name,))
            self._keys = dict(self.execute("SELECT name, number FROM metric_keys").fetchall())
        return self._keys

    def floor(self, expression: str) -> str:
        """SQL for the whole part of a number that is not negative."""
        return f"CAST({expression} AS INTEGER)" if self._is_sqlite else f"CAST(floor({expression}) AS BIGINT)"

    def forget_keys(self) -> None:
        """Drop cached numbers of metrics, which a failed transaction may have added."""
        self._keys = {}

    @contextlib.contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise errors of the driver as `StoreError`."""
        with translated_errors(self.url):
            yield

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._is_snapshot, self._signature = False, ()
        if self._copied is not None:
            self._copied.cleanup()
            self._copied = None

    def _placeholders(self, sql: str) -> str:
        return sql if self._is_sqlite else sql.replace("?", "%s")


def _log_of(file: Path) -> Path:
    """The log beside an SQLite file, which has its newest rows while anybody writes, and after a kill."""
    return file.with_name(f"{file.name}-wal")


@contextlib.contextmanager
def translated_errors(url: StoreUrl) -> Iterator[None]:
    """Raise errors of a database's driver as `StoreError`."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot use the store {url.shown}: {error.strerror or error}") from error
    except Exception as error:
        translated = translate(url, error)
        if translated is None:
            raise
        raise translated from error


def translate(url: StoreUrl, error: Exception) -> StoreError | None:
    """The `StoreError` for a driver's error; `None` if it is not one."""
    if isinstance(error, sqlite3.Error):
        return _translate_sqlite(url, error)
    if not type(error).__module__.startswith("psycopg"):
        return None
    import psycopg

    message = url.without_password(" ".join(str(error).split()))
    if isinstance(error, psycopg.errors.QueryCanceled):
        return _TOO_SLOW
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreAwayError(f"the store {url.shown} cannot be reached: {message}")
    return StoreError(f"the store {url.shown} refuses: {message}")


def _translate_sqlite(url: StoreUrl, error: sqlite3.Error) -> StoreError:
    message, file = str(error), url.shown
    if message == "interrupted":
        return _TOO_SLOW
    if "locked" in message or "busy" in message:
        return StoreAwayError(f"the store {file} is locked by another process: try again, or end that one")
    if "readonly" in message or "read-only" in message:
        return StoreReadOnlyError(
            f"the store {file} is read-only: make it and its folder writable, or take another (--store)"
        )
    if "unable to open" in message:
        parent = Path(file).parent
        if parent.is_dir() and not os.access(parent, os.W_OK):
            what = "is read-only, as its folder is" if Path(file).is_file() else "cannot be made in a read-only folder"
            return StoreReadOnlyError(f"the store {file} {what}")
        return StoreError(f"cannot open the store {file}: check that {parent} exists and that you may write there")
    if "not a database" in message or "malformed" in message:
        return damaged_store(url, message)
    if "full" in message:
        return StoreAwayError(f"cannot write to the store {file}: the disk is full")
    return StoreError(f"the store {file} refuses: {message}")


_TOO_SLOW: Final = QueryError("the query takes too long: ask for fewer runs or metrics, or for a part of the steps")


def damaged_store(url: StoreUrl, why: str) -> StoreError:
    """The error for a store whose file is damaged."""
    return StoreError(
        f"the store {url.shown} is damaged ({why}): move it away, and 'hotloop runs list' makes a new one from the "
        "folders of the runs"
    )


def _newer_store(url: StoreUrl, version: int) -> StoreError:
    """The error for a store that a later version of Hotloop has upgraded."""
    return StoreError(
        f"the store {url.shown} is of a newer Hotloop (version {version} of its tables, this one knows "
        f"{len(migrations.MIGRATIONS)}): upgrade Hotloop, or take another store (--store)"
    )


def _foreign_store(url: StoreUrl) -> StoreError:
    """The error for a database that is not a store."""
    return StoreError(f"{url.shown} is a database, but no store of Hotloop: take another file (--store)")
