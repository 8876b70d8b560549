"""The queue: rows of jobs in the store, changed by compare-and-set, each change with an event.

Every change is one transaction that no other writer of the queue overlaps, in SQLite as in PostgreSQL. A commit is on
the disk when a call returns.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic_core import to_json

from hotloop.errors import JobError, LeaseLostError
from hotloop.orchestrator.job import CHOSEN, COLUMNS, OPEN, Job, Request, State, to_job
from hotloop.orchestrator.schedule import AGING, check_cycles
from hotloop.text import bounded, plain
from hotloop.tracking.database import Database
from hotloop.tracking.store_url import find_store_url

if TYPE_CHECKING:
    from types import TracebackType

# The key of PostgreSQL's advisory lock for changes of the queue.
_LOCK_KEY: Final = 0x686F746D
# Nanoseconds within which two changes of a file may have the same time.
_COARSE: Final = 20_000_000
# Rows that one query names by number or key.
_AT_ONCE: Final = 500
# Characters of a reason: it may be an exception's text.
_LONGEST_WHY: Final = 2000
_INSERTED: Final = (
    *("key", "answers", "kind", "name", "spec", "shape", "exact", "state", "why", "wish", "paused", "priority"),
    *("group_name", "cores", "memory", "gpus", "retries", "attempts", "deaths", "needs", "not_before", "submitted"),
    *("queued", "ended", "run", "result"),
)
_EVENT: Final = ("job", "time", "before", "after", "why", "facts")


class Queue:
    """The queue of a store.

    Args:
        store: A file, `postgresql://HOST/DATABASE`, or nothing for `HOTLOOP_STORE` or the home's own store.
        home: The home, for its own store.
        timeout: Seconds to wait for other writers.
    """

    def __init__(self, store: str | Path | None, home: Path, *, timeout: float = 5.0) -> None:
        url = find_store_url(store, home)
        if url is None:
            raise JobError("jobs are kept in a store, and the store is 'none': give --store, or unset HOTLOOP_STORE")
        self.url, self.home = url, home
        self.holder: str | None = None
        """Identity of the orchestrator that holds the lease; set in its own queue only."""
        self._timeout = timeout
        self._log = (0, 0)
        self._database = self._connect(create=True)

    def _connect(self, *, create: bool) -> Database:
        database = Database(self.url, create=create, timeout=self._timeout)
        if self.url.file is not None:
            # Durable: a commit waits for the disk.
            database.execute("PRAGMA synchronous=FULL")
        return database

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def reopen(self) -> None:
        """Open a new connection, after `close`; a store that was deleted meanwhile must not come back empty."""
        self._database = self._connect(create=False)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Database]:
        """Yield the connection, reopened if the server went away."""
        with self._database.translated_errors():
            yield self._database.reconnected()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Database]:
        """Yield the connection in a transaction; of an orchestrator only while it holds the lease."""
        with self.reading() as database, database.transaction():
            if self.url.file is None:
                database.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK_KEY,))
            if self.holder is not None:
                (holder,) = database.execute("SELECT holder FROM orchestrator").fetchone() or ("",)
                if holder != self.holder:
                    raise LeaseLostError("another orchestrator has taken over this store")
            yield database

    def jobs(self, numbers: Collection[int] | None = None, *, states: tuple[State, ...] = ()) -> list[Job]:
        """Return jobs in the order of their numbers, without their specs: all, some, or those in some states."""
        parts: list[tuple[str, tuple[object, ...]]] = [("", ())]
        if numbers is not None:
            some = sorted(numbers)
            chunks = [tuple(some[i : i + _AT_ONCE]) for i in range(0, len(some), _AT_ONCE)]
            parts = [(f" WHERE number IN ({_marks(chunk)})", chunk) for chunk in chunks]
        elif states:
            parts = [(f" WHERE state IN ({_marks(states)})", tuple(states))]
        rows = []
        for where, values in parts:
            sql = f"SELECT {', '.join(COLUMNS)} FROM jobs{where} ORDER BY number"
            with self.reading() as database:
                rows += database.execute(sql, values).fetchall()
        return [to_job(dict(zip(COLUMNS, row, strict=True))) for row in rows]

    def query_named(self, sql: str, *parameters: object) -> list[dict[str, Any]]:
        """Return the rows that a statement finds, by the names of their columns."""
        with self.reading() as database:
            found = database.execute(sql, parameters)
            names = [column[0] for column in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def candidates(self, now: float, count: int, gpus: int) -> list[Job]:
        """Return the queued jobs that may be among the next `count` to start, with this many GPUs free.

        These are the first of each group by effective priority; a long queue is sorted by the database.
        """
        found: list[Job] = []
        with self.reading() as database:
            wanted = "state = 'queued' AND paused = 0 AND gpus <= ?"
            groups = database.execute(f"SELECT DISTINCT group_name FROM jobs WHERE {wanted}", (gpus,)).fetchall()
            age = database.floor(f"CASE WHEN queued < ? THEN (? - queued) / {AGING} ELSE 0 END")
            for (group,) in groups:
                rows = database.execute(
                    f"SELECT {', '.join(COLUMNS)} FROM jobs WHERE {wanted} AND group_name = ? "
                    f"ORDER BY priority + {age} DESC, number LIMIT {count}",
                    (gpus, group, now, now),
                ).fetchall()
                found += [to_job(dict(zip(COLUMNS, row, strict=True))) for row in rows]
        return found

    def job(self, number: int) -> Job:
        """Return one job, with its spec."""
        columns = (*COLUMNS, "spec")
        with self.reading() as database:
            row = database.execute(f"SELECT {', '.join(columns)} FROM jobs WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise JobError(f"there is no job {number} in {self.url.shown}: 'hotloop jobs list' shows all")
        return to_job(dict(zip(columns, row, strict=True)))

    def find(self, text: str | int) -> int:
        """Return the number of the job that a text names: a number, or `last`."""
        if str(text) == "last":
            with self.reading() as database:
                (number,) = database.execute("SELECT max(number) FROM jobs").fetchone()
            if number is None:
                raise JobError(f"there is no job in {self.url.shown} yet: 'hotloop train ENV --queue' makes one")
            return int(number)
        if not str(text).isdecimal():
            raise JobError(f"{str(text)!r} names no job: expected its number, or last")
        return int(text)

    def last_event(self) -> int:
        """Return the number of the newest event: it grows with every change of the queue."""
        with self.reading() as database:
            (number,) = database.execute("SELECT max(number) FROM job_events").fetchone()
        return int(number or 0)

    def may_have_changed(self) -> bool:
        """Return `False` if nobody wrote to the store since the last call: a glance at the file's log, not a query."""
        if self.url.file is None:
            return True
        try:
            status = self.url.file.with_name(f"{self.url.file.name}-wal").stat()
        except OSError:
            return True
        before, self._log = self._log, (status.st_mtime_ns, status.st_size)
        # Times of files are coarse: a second change may have come at the same one.
        return self._log != before or abs(time.time_ns() - status.st_mtime_ns) < _COARSE

    # Submission

    def submit(self, request: Request, *, fresh: bool = False) -> Job:
        """Add a job, or return the one that has this key already; with `fresh` a new one in any case."""
        return self.submit_many([request], fresh=fresh)[0]

    def submit_many(self, requests: Sequence[Request], *, fresh: bool = False) -> list[Job]:
        """Add many jobs in one transaction; all or none."""
        labels = _check_labels(requests)
        keys = [request.key for request in requests]
        if not fresh and (known := self.answered(keys)).keys() >= set(keys):
            # Nothing is new, so nothing is written.
            jobs = {job.number: job for job in self.jobs(set(known.values()))}
            return [jobs[known[key]] for key in keys]
        with self.writing() as database:
            self._check_needs(database, requests)
            found = {} if fresh else self._answering(database, keys)
            self._withdraw(database, requests, keep=found)
            (last,) = database.execute("SELECT coalesce(max(number), 0) FROM jobs").fetchone()
            new: dict[str, Request] = {}
            for request in requests:
                if request.key not in found:
                    new.setdefault(request.key, request)
            now = time.time()
            database.insert("jobs", _INSERTED, [_to_row(request, now) for request in new.values()])
            rows = database.execute("SELECT key, number, state, why FROM jobs WHERE number > ?", (last,)).fetchall()
            numbers = found | {key: number for key, number, _, _ in rows}
            events = [(number, now, "", state, why or "submitted", "{}") for _, number, state, why in rows]
            database.insert("job_events", _EVENT, events)
            for request in new.values():
                if request.after:
                    needs = [
                        (numbers[labels[need].key] if isinstance(need, str) else need, condition)
                        for need, condition in request.after
                    ]
                    database.execute(
                        "UPDATE jobs SET needs = ? WHERE number = ?", (json.dumps(needs), numbers[request.key])
                    )
        jobs = {job.number: job for job in self.jobs(set(numbers.values()))}
        return [jobs[numbers[key]] for key in keys]

    def answered(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the jobs that submissions with these keys would get, for those keys that have one."""
        with self.reading() as database:
            return self._answering(database, keys)

    def _check_needs(self, database: Database, requests: Sequence[Request]) -> None:
        needed = sorted({need for request in requests for need, _ in request.after if isinstance(need, int)})
        for i in range(0, len(needed), _AT_ONCE):
            some = needed[i : i + _AT_ONCE]
            known = {
                row[0] for row in database.execute(f"SELECT number FROM jobs WHERE number IN ({_marks(some)})", some)
            }
            if missing := [number for number in some if number not in known]:
                raise JobError(f"there is no job {missing[0]} to come after: 'hotloop jobs list' shows all")

    def _answering(self, database: Database, keys: Sequence[str]) -> dict[str, int]:
        """Return the jobs that answer these keys: all that are open or completed with a result that stays valid."""
        found: dict[str, int] = {}
        for i in range(0, len(keys), _AT_ONCE):
            some = keys[i : i + _AT_ONCE]
            found |= dict(
                database.execute(
                    f"SELECT key, number FROM jobs WHERE key IN ({_marks(some)}) AND answers = 1 "
                    "AND state NOT IN ('failed', 'cancelled') "
                    f"AND (state <> 'completed' OR exact = 1 OR substr(key, 1, {len(CHOSEN)}) = '{CHOSEN}')",
                    some,
                ).fetchall()
            )
        return found

    def _withdraw(self, database: Database, requests: Sequence[Request], keep: Mapping[str, int]) -> None:
        """Let older jobs of these keys answer no longer; one that is still open under `fresh` goes on all the same."""
        keys = [request.key for request in requests if request.key not in keep]
        for i in range(0, len(keys), _AT_ONCE):
            some = keys[i : i + _AT_ONCE]
            database.execute(f"UPDATE jobs SET answers = 0 WHERE key IN ({_marks(some)}) AND answers = 1", some)

    # Changes of state

    def change(
        self,
        number: int,
        before: tuple[State, ...],
        after: State,
        why: str,
        facts: Mapping[str, Any] | None = None,
        **columns: Any,
    ) -> bool:
        """Move a job to another state, if it is in one of these; return whether it was."""
        with self.writing() as database:
            return change(database, number, before, after, why, facts, **columns)

    def note(self, why: str, facts: Mapping[str, Any], *, job: int = 0) -> None:
        """Add an event that changes no state: a decision of the orchestrator, with its numbers."""
        with self.writing() as database:
            add_event(database, job, "", "", why, facts)

    # Requests of users

    def cancel(self, number: int) -> Job:
        """Cancel a job; a running one ends with a checkpoint, as soon as the orchestrator has passed the request on."""
        with self.writing() as database:
            state = self._state(database, number)
            if state in ("waiting", "queued"):
                change(database, number, (state,), "cancelled", "cancelled by the user", ended=time.time(), answers=0)
            elif state == "running":
                _wish(database, number, "cancel")
            elif state != "cancelled":
                raise JobError(f"job {number} is {state} already")
        return self.job(number)

    def pause(self, number: int) -> Job:
        """Keep a job from starting; a running one ends with a checkpoint and waits."""
        with self.writing() as database:
            state = self._state(database, number)
            if state not in OPEN:
                raise JobError(f"job {number} is {state} already")
            database.execute("UPDATE jobs SET paused = 1 WHERE number = ?", (number,))
            if state == "running":
                _wish(database, number, "pause")
            else:
                add_event(database, number, state, state, "paused by the user")
        return self.job(number)

    def resume(self, number: int) -> Job:
        """Let a paused job start again."""
        with self.writing() as database:
            state = self._state(database, number)
            if not self._is_paused(database, number):
                raise JobError(f"job {number} is not paused: it is {state}")
            database.execute(
                "UPDATE jobs SET paused = 0, wish = CASE WHEN wish = 'pause' THEN '' ELSE wish END WHERE number = ?",
                (number,),
            )
            add_event(database, number, state, state, "resumed by the user")
        return self.job(number)

    def retry(self, number: int) -> Job:
        """Queue a failed or cancelled job again; it goes on from its last checkpoint."""
        with self.writing() as database:
            state = self._state(database, number)
            if state not in ("failed", "cancelled"):
                raise JobError(f"job {number} is {state}: only a failed or cancelled one can be retried")
            (key,) = database.execute("SELECT key FROM jobs WHERE number = ?", (number,)).fetchone()
            taken = database.execute("SELECT number FROM jobs WHERE key = ? AND answers = 1", (key,)).fetchone()
            if taken is not None and taken[0] != number:
                raise JobError(
                    f"job {number} was submitted again as job {taken[0]}: see 'hotloop jobs show {taken[0]}'"
                )
            now = time.time()
            columns: dict[str, Any] = {
                "deaths": "[]",
                "answers": 1,
                "queued": now,
                "ended": None,
                "not_before": 0.0,
                "wish": "",
            }
            change(database, number, (state,), "waiting", "retried by the user", **columns)
        return self.job(number)

    def move(
        self,
        number: int,
        *,
        priority: int | None = None,
        group: str | None = None,
        after: Sequence[tuple[int, str]] | None = None,
    ) -> Job:
        """Change a job's priority, its group, or the jobs that it comes after."""
        with self.writing() as database:
            state = self._state(database, number)
            if state not in OPEN or (after is not None and state == "running"):
                raise JobError(f"job {number} is {state} already")
            changes: dict[str, object] = {"priority": priority, "group_name": group}
            if after is not None:
                needs = {
                    each: [need for need, _ in json.loads(text)]
                    for each, text in database.execute(
                        "SELECT number, needs FROM jobs WHERE state IN ('waiting', 'queued')"
                    ).fetchall()
                }
                for need, _ in after:
                    self._state(database, need)
                check_cycles({**needs, number: [need for need, _ in after]})
                changes |= {"needs": json.dumps(after), "state": "waiting"}
            changes = {key: value for key, value in changes.items() if value is not None}
            if changes:
                names = ", ".join(f"{name} = ?" for name in changes)
                database.execute(f"UPDATE jobs SET {names} WHERE number = ?", (*changes.values(), number))
                after_state = "waiting" if after is not None else state
                add_event(database, number, state, after_state, "moved by the user", {**changes, "needs": after or []})
        return self.job(number)

    def pause_all(self, *, paused: bool) -> None:
        """Start no job, or start jobs again; running ones go on."""
        with self.writing() as database:
            database.execute("UPDATE orchestrator SET paused = ?", (int(paused),))
            add_event(database, 0, "", "", f"queue {'paused' if paused else 'resumed'} by the user")

    def _state(self, database: Database, number: int) -> State:
        row = database.execute("SELECT state FROM jobs WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise JobError(f"there is no job {number} in {self.url.shown}: 'hotloop jobs list' shows all")
        state: State = row[0]
        return state

    def _is_paused(self, database: Database, number: int) -> bool:
        (paused,) = database.execute("SELECT paused FROM jobs WHERE number = ?", (number,)).fetchone()
        return bool(paused)


def change(
    database: Database,
    number: int,
    before: tuple[State, ...],
    after: State,
    why: str,
    facts: Mapping[str, Any] | None = None,
    **columns: Any,
) -> bool:
    """Move a job to another state within a transaction, if it is in one of these; return whether it was."""
    row = database.execute(
        f"SELECT state FROM jobs WHERE number = ? AND state IN ({_marks(before)})", (number, *before)
    )
    found = row.fetchone()
    if found is None:
        return False
    values = {**columns, "state": after, "why": why[:_LONGEST_WHY]}
    names = ", ".join(f"{name} = ?" for name in values)
    database.execute(f"UPDATE jobs SET {names} WHERE number = ?", (*values.values(), number))
    add_event(database, number, found[0], after, why, facts)
    return True


def add_event(
    database: Database, job: int, before: str, after: str, why: str, facts: Mapping[str, Any] | None = None
) -> None:
    """Add an event within a transaction; job 0 is the orchestrator itself."""
    text = json.dumps(bounded(plain(dict(facts or {})), _LONGEST_WHY))
    database.insert("job_events", _EVENT, [(job, time.time(), before, after, why[:_LONGEST_WHY], text)])


def _wish(database: Database, number: int, wish: str) -> None:
    # A request to cancel is not taken back by a later one.
    database.execute("UPDATE jobs SET wish = ? WHERE number = ? AND wish <> 'cancel'", (wish, number))
    add_event(database, number, "running", "running", f"{wish} requested by the user")


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _check_labels(requests: Sequence[Request]) -> dict[str, Request]:
    """Return the requests of a batch by label; refuse labels that are unknown, used twice, or wait for each other."""
    labels = {request.label: request for request in requests if request.label is not None}
    if len(labels) != sum(request.label is not None for request in requests):
        raise JobError("two jobs of the batch have the same name: names are what 'after' refers to")
    for request in requests:
        for need, _ in request.after:
            if isinstance(need, str) and need not in labels:
                raise JobError(f"{request.name!r} is after {need!r}, but no job of the batch has that name")
    check_cycles({label: [need for need, _ in each.after if isinstance(need, str)] for label, each in labels.items()})
    return labels


def _to_row(request: Request, now: float) -> tuple[object, ...]:
    run, result = request.answer or (None, None)
    is_done = request.answer is not None
    waits = bool(request.after) or request.not_before > now
    return (
        *(request.key, 1, request.kind, request.name),
        *(to_json({**request.spec, "code": list(request.code)}).decode(), request.shape, int(request.exact)),
        "completed" if is_done else "waiting" if waits else "queued",
        "an equal run was completed before" if is_done else "",
        *("", 0, request.priority, request.group, request.cores, request.memory, request.gpus, request.retries),
        *(0, "[]", "[]", request.not_before, now, now, now if is_done else None),
        *(run, None if result is None else json.dumps(plain(dict(result)))),
    )
