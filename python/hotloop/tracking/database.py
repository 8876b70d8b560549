"""A thin link to a store over the database's own driver.

A toolkit for SQL would take longer to import than many a run takes, and a few plain statements are all there is to say.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from hotloop.tracking import migrations
from hotloop.tracking.errors import StoreAwayError, StoreError, StoreReadOnlyError

if TYPE_CHECKING:
    from types import TracebackType

    from hotloop.tracking.store_url import StoreUrl

# Seconds that a writer waits for others that write to the same file, and for a server to answer.
PATIENCE: Final = 5.0
# Marks a database as ours; PostgreSQL has it as the key of a lock, too.
_MARK: Final = 0x686F746C
# Rows that a statement writes to a file: one by one they take twice as long.
_ROWS_AT_ONCE: Final = 32


class Database:
    """A connection. Every SQL text is the same for all databases; parameters are marked with `?`.

    Args:
        place: The store.
        make: Whether a file that is not there is made.
        read_only: Nothing is written, not even what a reader leaves beside a file.
        patience: Seconds that it waits for others who write, and for a server to answer.
    """

    def __init__(
        self, place: StoreUrl, *, make: bool = True, read_only: bool = False, patience: float = PATIENCE
    ) -> None:
        self.place = place
        self._is_sqlite = place.file is not None
        self._is_read_only = read_only
        self._make, self._patience = make and not read_only, patience
        self._keys: dict[str, int] = {}
        self._open()

    def _open(self) -> None:
        with self.telling():
            self._connection = self._open_file() if self._is_sqlite else self._open_server()
        try:
            with self.telling():
                self._upgrade()
        except BaseException:
            self.close()
            raise

    def renewed(self) -> Self:
        """The link, opened again if the server had gone away."""
        if not self._is_sqlite and self._connection.closed:
            self._open()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _open_file(self) -> Any:
        file = self.place.file
        assert file is not None
        if not file.exists():
            if not self._make:
                raise StoreError(f"there is no store {file}")
            if self.place.is_default:
                file.parent.mkdir(parents=True, exist_ok=True)
            elif not file.parent.is_dir():
                raise StoreError(f"cannot make the store {file}: there is no folder {file.parent}")
        address = str(file)
        if self._is_read_only:
            # Without a log beside it nobody is writing; then a folder that cannot be written is no hindrance.
            extra = "&immutable=1" if not file.with_name(file.name + "-wal").exists() else ""
            address = f"{file.absolute().as_uri()}?mode=ro{extra}"
        connection = sqlite3.connect(
            address, uri=self._is_read_only, timeout=self._patience, isolation_level=None, check_same_thread=False
        )
        if self._is_read_only:
            return connection
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_server(self) -> Any:
        import psycopg

        assert self.place.url is not None
        # A server that is gone without a word is noticed, too.
        return psycopg.connect(
            self.place.url,
            autocommit=True,
            connect_timeout=max(2, round(self._patience)),
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
            application_name="hotloop",
            client_encoding="utf8",
        )

    def _upgrade(self) -> None:
        """Brings the schema to the newest version; whoever comes second finds it done."""
        newest = len(migrations.MIGRATIONS)
        found = self._version()
        if found == newest:
            return
        if found > newest:
            raise newer_store(self.place, found)
        if self._is_read_only:
            raise StoreReadOnlyError(
                f"the store {self.place.shown} is of an older Hotloop and cannot be upgraded: make it writable first"
            )
        kind = "sqlite" if self._is_sqlite else "postgresql"
        with self.transaction():
            if not self._is_sqlite:
                self.execute("SELECT pg_advisory_xact_lock(?)", (_MARK,))
            version = self._version()
            if version == 0:
                if self._is_sqlite and self.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise foreign_store(self.place)
                self.execute("CREATE TABLE hotloop_store (version BIGINT NOT NULL)")
                self.execute("INSERT INTO hotloop_store VALUES (0)")
            for migration in migrations.MIGRATIONS[version:]:
                for statement in migration:
                    self.execute(statement.format(**migrations.WORDS[kind]))
            self.execute("UPDATE hotloop_store SET version = ?", (newest,))

    def _version(self) -> int:
        """Which version the schema has; 0 if there is none."""
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
        """One statement."""
        return self._connection.execute(self._marked(sql), parameters)

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, unique: Sequence[str] = ()
    ) -> None:
        """Rows of a table; one that is there already, by its unique columns, is replaced."""
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
                cursor.executemany(self._marked(sql), joined)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing. In a file of SQLite nobody else writes meanwhile."""
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
        """The numbers that stand for names of metrics; new names get one."""
        if missing := set(names) - self._keys.keys():
            for name in sorted(missing):
                self.execute("INSERT INTO metric_keys (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (name,))
            self._keys = dict(self.execute("SELECT name, number FROM metric_keys").fetchall())
        return self._keys

    def forget_keys(self) -> None:
        """After a transaction that failed, what it had added is not there."""
        self._keys = {}

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Turns what the driver raises into words."""
        with telling(self.place):
            yield

    def close(self) -> None:
        """Lets go of the database."""
        self._connection.close()

    def _marked(self, sql: str) -> str:
        return sql if self._is_sqlite else sql.replace("?", "%s")


@contextlib.contextmanager
def telling(place: StoreUrl) -> Iterator[None]:
    """Turns what a database's driver raises into a `StoreError`."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot use the store {place.shown}: {error.strerror or error}") from error
    except Exception as error:
        told = in_words(place, error)
        if told is None:
            raise
        raise told from error


def in_words(place: StoreUrl, error: Exception) -> StoreError | None:
    """What a driver's error means; nothing if it is none of a database's."""
    if isinstance(error, sqlite3.Error):
        return _of_sqlite(place, error)
    if not type(error).__module__.startswith("psycopg"):
        return None
    import psycopg

    said = " ".join(str(error).split())
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreAwayError(f"the store {place.shown} cannot be reached: {said}")
    return StoreError(f"the store {place.shown} refuses: {said}")


def _of_sqlite(place: StoreUrl, error: sqlite3.Error) -> StoreError:
    said, file = str(error), place.shown
    if "locked" in said or "busy" in said:
        return StoreAwayError(f"the store {file} is locked by another process: try again, or end that one")
    if "readonly" in said or "read-only" in said:
        return StoreReadOnlyError(
            f"the store {file} is read-only: make it and its folder writable, or take another (--store)"
        )
    if "unable to open" in said:
        parent = Path(file).parent
        return StoreError(f"cannot open the store {file}: check that {parent} exists and that you may write there")
    if "not a database" in said or "malformed" in said:
        return StoreError(
            f"the store {file} is damaged ({said}): move it away, and 'hotloop runs list' makes a new one from the "
            "folders of the runs"
        )
    if "full" in said:
        return StoreAwayError(f"cannot write to the store {file}: the disk is full")
    return StoreError(f"the store {file} refuses: {said}")


def newer_store(place: StoreUrl, version: int) -> StoreError:
    """The error for a store that a later version of Hotloop has upgraded."""
    return StoreError(
        f"the store {place.shown} is of a newer Hotloop (version {version} of its tables, this one knows "
        f"{len(migrations.MIGRATIONS)}): upgrade Hotloop, or take another store (--store)"
    )


def foreign_store(place: StoreUrl) -> StoreError:
    """The error for a database of somebody else."""
    return StoreError(f"{place.shown} is a database, but no store of Hotloop: take another file (--store)")
