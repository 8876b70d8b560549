"""The orchestrator: starts jobs, watches them, and settles how they ended.

Everything it decides follows from the store, the folders of jobs and the processes that exist, looked at again in each
pass. A pass that fails, because the store is away, is repeated; an orchestrator that dies is replaced by another one
that looks at the same things.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import StoreError, TrainingError
from hotloop.orchestrator import lease, machine
from hotloop.orchestrator.attempts import Attempt
from hotloop.orchestrator.child import COMPLETED, ERROR, NO_SPACE, STOPPED
from hotloop.orchestrator.folder import JobFolder, LockedError
from hotloop.orchestrator.launcher import Launcher, RunCommand, import_what_jobs_need
from hotloop.orchestrator.machine import cpu_time
from hotloop.orchestrator.monitor import Monitor
from hotloop.orchestrator.queue import Queue, add_event, change
from hotloop.orchestrator.retries import DEFAULT_MEMORY, Death, death_of, judge
from hotloop.orchestrator.schedule import decayed, is_due, order, unmet
from hotloop.training.trust import check_trust

if TYPE_CHECKING:
    from hotloop.config.orchestrator import OrchestratorConfig
    from hotloop.orchestrator.job import Job, State
    from hotloop.tracking.database import Database

# Seconds between looks at the queue, and between attempts to reach a store that is away.
_POLL: Final = 0.03
_AWAY: Final = 0.5
# Seconds between samples of what jobs use.
_SAMPLE: Final = 2.0
# Longest time between looks at an idle queue.
_IDLE: Final = 10.0
# Seconds after which a job that does not end on request is killed.
GRACE: Final = 10.0


class Orchestrator:
    """The process that runs the jobs of a store.

    Args:
        store: The store; the home's own by default.
        home: The home, in which the folders of jobs are.
        settings: Limits and how they adapt.
        run_command: Runs a command of `hotloop` in a job's process.
        limit: A fixed limit in place of the adaptive one.
        trust: Whether to run code that jobs name although they were submitted elsewhere.
        until_done: Return when no job is left that could run.
        grace: Seconds after which a job that does not end on request is killed.
        say: Prints a message for people.
    """

    def __init__(
        self,
        store: str | Path | None,
        home: Path,
        settings: OrchestratorConfig,
        *,
        run_command: RunCommand,
        limit: int | None = None,
        trust: bool = False,
        until_done: bool = False,
        grace: float = GRACE,
        say: Callable[[str], object] = lambda message: print(message, file=sys.stderr, flush=True),
    ) -> None:
        self._store, self._home, self._settings = store, home, settings
        self._run_command, self._say = run_command, say
        self._trust, self._until_done, self._grace = trust, until_done, grace
        self._monitor = Monitor(settings, limit)
        self._attempts: dict[int, Attempt] = {}
        self._paused = self._stopping = self._has_reports = False
        self._last_event = -1
        self._oom_kills = machine.oom_kills()
        now = time.monotonic()
        self._beaten, self._sampled, self._adapted, self._look_at = 0.0, now, now, 0.0
        self._away: str | None = None

    def run(self) -> None:
        """Run jobs until a signal asks to end (they go on), or until none is left with `until_done`."""
        import_what_jobs_need()
        self._launcher = Launcher(self._run_command)
        try:
            self._queue = Queue(self._store, self._home)
            lease.acquire(self._queue)
            how = "fixed" if self._monitor.is_fixed else "adaptive"
            self._say(f"running the jobs of {self._queue.url.shown}: limit {self._monitor.limit} ({how})")
            with self._until_signal():
                while not self._stopping:
                    self._wait(self._pass())
            with contextlib.suppress(StoreError):
                lease.release(self._queue)
        finally:
            self._launcher.close()

    @contextlib.contextmanager
    def _until_signal(self) -> Iterator[None]:
        def stop(number: int, frame: object) -> None:
            self._stopping = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wait(self, seconds: float) -> None:
        ready, _, _ = select.select([self._launcher], [], [], seconds)
        self._has_reports = bool(ready)

    def _pass(self) -> float:
        """Look at everything once; return how long to wait until the next look."""
        try:
            ended = self._has_reports and self._take_reports()
            now = time.monotonic()
            if now - self._beaten >= lease.BEAT:
                self._beaten = now
                self._paused = lease.beat(self._queue, self._monitor.figures(len(self._attempts)))
            if now - self._sampled >= min(_SAMPLE, self._settings.adaptation_interval / 2):
                self._sample(now)
            if now - self._adapted >= self._settings.adaptation_interval:
                self._adapt(now)
            event = self._queue.last_event() if self._queue.may_have_changed() else self._last_event
            if event != self._last_event or ended or now >= self._look_at or self._any_over():
                self._look()
                self._last_event = event
            if self._away is not None:
                self._say(f"jobs are started again: {self._queue.url.shown} is back")
                self._away = None
        except (StoreError, OSError) as error:
            # A disk that refuses the files of jobs is as passing as a store that is away.
            if self._away != str(error):
                self._away = str(error)
                self._say(f"{error}; running jobs go on, and nothing starts until it is back")
            return _AWAY
        # A query to a server costs more than a glance at a file.
        return _POLL if self._queue.url.file is not None else 2 * _POLL

    def _take_reports(self) -> bool:
        try:
            reports = self._launcher.reports()
        except EOFError:
            # Nothing that is forked may inherit a connection.
            self._queue.close()
            self._launcher.close()
            self._launcher = Launcher(self._run_command)
            self._queue.reopen()
            return True
        by_folder = {str(attempt.folder.path): attempt for attempt in self._attempts.values()}
        for report in reports:
            attempt = by_folder.get(report.folder)
            if attempt is not None and report.status is None:
                attempt.pid = report.pid
            elif attempt is not None and attempt.pid == report.pid:
                attempt.status = report.status
        return any(report.status is not None for report in reports)

    def _any_over(self) -> bool:
        """Return whether a job that was adopted ended, or one was asked to end: no launcher reports these."""
        return any(
            attempt.asked_to_stop is not None or (attempt.launched is None and attempt.is_over())
            for attempt in self._attempts.values()
        )

    def _look(self) -> None:
        """Settle jobs that ended, pass on requests, and start jobs."""
        for job in self._queue.jobs(states=("running",)):
            attempt = self._attempts.get(job.number) or self._adopt(job)
            attempt.job = job
            if attempt.is_over():
                self._settle(attempt)
            elif job.wish:
                attempt.stop(self._grace)
        now = time.time()
        due = self._promote(now)
        if not self._paused and not self._monitor.memory_short:
            self._start(now)
        self._share_threads()
        self._look_at = time.monotonic() + max(0.0, min(lease.BEAT if self._attempts else _IDLE, due - now))
        if self._until_done and not self._attempts and not self._has_more():
            self._stopping = True

    def _has_more(self) -> bool:
        return any(not job.paused for job in self._queue.jobs(states=("waiting", "queued", "running")))

    def _adopt(self, job: Job) -> Attempt:
        """Return the attempt of a job that is running since before this orchestrator started."""
        folder = JobFolder(job.path)
        progress = folder.read_progress()
        attempt = Attempt(job, folder, folder.asked_threads() or job.cores, self._expected_memory(job))
        attempt.identity = folder.read_process()
        attempt.steps = 0 if progress is None else progress.steps
        if attempt.identity is not None:
            attempt.cpu = cpu_time([attempt.identity.pid])
        self._attempts[job.number] = attempt
        return attempt

    # Ends

    def _settle(self, attempt: Attempt) -> None:
        """Record how an attempt ended, and decide what follows."""
        job, folder = attempt.job, attempt.folder
        try:
            with folder.locked():
                outcome = folder.read_outcome()
                folder.withdraw_order()
        except LockedError:
            return
        identity = attempt.identity or folder.read_process()
        if identity is not None:
            # Whatever it started ends with it.
            identity.kill_session()
        peak = max(attempt.peak, 0 if outcome is None else int(outcome.get("peak", 0))) or job.peak
        columns: dict[str, Any] = {"wish": "", "peak": peak}
        code = None if outcome is None else outcome["code"]
        now = time.time()
        if outcome is not None and code == COMPLETED:
            result = json.dumps(outcome.get("result"))
            self._finish(attempt, "completed", "", ended=now, result=result, run=outcome.get("run"), **columns)
        elif job.wish == "cancel":
            self._finish(attempt, "cancelled", "cancelled by the user", ended=now, answers=0, **columns)
        elif job.wish or code == STOPPED:
            whys = {"pause": "paused by the user", "preempt": "preempted"}
            self._finish(attempt, "queued", whys.get(job.wish, "stopped from outside"), queued=now, **columns)
        else:
            kills, self._oom_kills = self._oom_kills, machine.oom_kills()
            death = death_of(
                outcome,
                attempt.status,
                out_of_memory=self._oom_kills > kills and _was_killed(attempt.status),
                progress=folder.read_progress(),
            )
            assert death is not None
            self._record_death(attempt, death, columns)

    def _record_death(self, attempt: Attempt, death: Death, columns: dict[str, Any]) -> None:
        job, now = attempt.job, time.time()
        verdict = judge(job, death, _newest_checkpoint(job.run))
        if verdict.state == "failed":
            columns |= {"ended": now, "answers": 0}
        else:
            self._monitor.count_retry(death.cause)
            columns |= {"not_before": now + verdict.delay, "queued": now}
            if verdict.memory is not None:
                columns |= {"memory": verdict.memory}
        deaths = [*job.deaths, death._asdict()]
        self._finish(attempt, verdict.state, verdict.why, death, deaths=json.dumps(deaths), **columns)

    def _finish(self, attempt: Attempt, state: State, why: str, death: Death | None = None, **columns: Any) -> None:
        facts = None if death is None else death._asdict()
        with self._queue.writing() as database:
            change(database, attempt.job.number, ("running",), state, why, facts, **columns)
            _charge(database, attempt.job)
        self._say(f"job {attempt.job.number} {state}{f': {why}' if why else ''}")
        self._monitor.count_end(attempt, died=death is not None)
        attempt.folder.rotate_log()
        del self._attempts[attempt.job.number]

    # Starts

    def _promote(self, now: float) -> float:
        """Queue the waiting jobs whose needs are met; return when the next one may be due."""
        waiting = self._queue.jobs(states=("waiting",))
        needed = {need for job in waiting for need, _ in job.needs}
        states = {job.number: job.state for job in self._queue.jobs(needed)} if needed else {}
        next_due = now + 3600.0
        ready: list[int] = []
        hopeless: dict[int, str] = {}
        for job in waiting:
            awaited, never = unmet(job.needs, states)
            if never is not None:
                hopeless[job.number] = never
            elif not awaited and is_due(job, now):
                ready.append(job.number)
            elif not awaited:
                next_due = min(next_due, job.not_before)
        if ready or hopeless:
            with self._queue.writing() as database:
                for number in ready:
                    change(database, number, ("waiting",), "queued", "", queued=now)
                for number, why in hopeless.items():
                    change(database, number, ("waiting",), "cancelled", why, ended=now, answers=0)
        return next_due

    def _start(self, now: float) -> None:
        """Start as many queued jobs as fit, in order; ask a lower one to make room for one that does not."""
        cores = sum(attempt.job.cores for attempt in self._attempts.values())
        gpus = machine.gpu_count() - sum(attempt.job.gpus for attempt in self._attempts.values())
        # One more than can start: it may preempt another.
        slots = min(self._settings.batch_size, max(0, self._monitor.limit - cores)) + 1
        queued = self._queue.candidates(now, slots, gpus)
        if not queued:
            return
        with self._queue.reading() as database:
            used = _group_use(database, now)
        for attempt in self._attempts.values():
            job = attempt.job
            used[job.group_name] = used.get(job.group_name, 0.0) + job.cores * max(0.0, now - (job.started or now))
        chosen: list[Job] = []
        memory = machine.memory()
        free_memory = (
            memory.available
            - memory.spare
            - sum(max(0, attempt.memory - attempt.resident) for attempt in self._attempts.values())
        )
        for job in order(queued, used, now):
            if len(chosen) == self._settings.batch_size:
                break
            if job.gpus > gpus:
                continue
            needed = self._expected_memory(job)
            if needed > memory.total - memory.spare:
                why = f"needs {needed >> 20} MB: this machine can give {(memory.total - memory.spare) >> 20} MB to jobs"
                self._queue.change(job.number, ("queued",), "failed", why, ended=now, answers=0)
                continue
            is_alone = not self._attempts and not chosen
            if needed > free_memory or (cores + job.cores > self._monitor.limit and not is_alone):
                self._preempt_for(job)
                break
            chosen.append(job)
            free_memory, cores, gpus = free_memory - needed, cores + job.cores, gpus - job.gpus
        self._launch(chosen, now)

    def _preempt_for(self, job: Job) -> None:
        """Ask the cheapest lower job to end, unless one that was asked has not ended yet."""
        if any(attempt.job.wish for attempt in self._attempts.values()):
            return
        lower = [attempt for attempt in self._attempts.values() if attempt.job.priority < job.priority]
        if lower:
            self._preempt(min(lower, key=_cost), f"preempted for job {job.number} of priority {job.priority}")

    def _preempt(self, attempt: Attempt, why: str) -> None:
        with self._queue.writing() as database:
            done = database.execute(
                "UPDATE jobs SET wish = 'preempt' WHERE number = ? AND state = 'running' AND wish = ''",
                (attempt.job.number,),
            )
            if done.rowcount == 1:
                add_event(database, attempt.job.number, "running", "running", why)
        attempt.stop(self._grace)

    def _launch(self, jobs: Sequence[Job], now: float) -> None:
        """Claim jobs in one transaction, then start their processes."""
        orders = []
        for job in jobs:
            job = self._queue.job(job.number)
            try:
                check_trust(self._home / "jobs" / job.key, job.spec.get("code", []), trust=self._trust)
            except TrainingError as error:
                self._queue.change(job.number, ("queued",), "failed", str(error), ended=now, answers=0)
                continue
            folder = JobFolder(self._home.absolute() / "jobs" / str(job.number))
            orders.append((job, folder))
        claimed = []
        if not orders:
            return
        with self._queue.writing() as database:
            for job, folder in orders:
                run = str(self._run_path(job)) if job.kind == "train" else None
                columns: dict[str, Any] = {
                    "attempts": job.attempts + 1,
                    "started": now,
                    "folder": str(folder.path),
                    "run": run,
                }
                if change(database, job.number, ("queued",), "running", "", wish="", **columns):
                    claimed.append((job, folder))
        threads = self._threads_per_job(len(self._attempts) + len(claimed))
        taken = {gpu for attempt in self._attempts.values() for gpu in attempt.gpus}
        for job, folder in claimed:
            attempt = Attempt(job, folder, max(job.cores, threads), self._expected_memory(job), time.monotonic())
            attempt.gpus = [gpu for gpu in range(machine.gpu_count()) if gpu not in taken][: job.gpus]
            taken |= set(attempt.gpus)
            self._attempts[job.number] = attempt
            self._monitor.count_start(now - job.queued)
            try:
                with folder.locked():
                    folder.place_order(
                        {
                            "job": job.number,
                            "attempt": job.attempts + 1,
                            "kind": job.kind,
                            "spec": job.spec,
                            "run": self._run_path(job).name,
                            "home": str(self._home.absolute()),
                            "store": None
                            if self._queue.url.is_default
                            else self._queue.url.url or str(self._queue.url.file),
                            "gpus": attempt.gpus,
                        }
                    )
                    folder.ask_threads(attempt.threads)
                self._launcher.launch(folder.path, job.attempts + 1)
                self._say(f"job {job.number} started: {job.name}")
            except LockedError:
                # A process of an earlier attempt is still there: it is the one to watch.
                attempt.launched = None
            except OSError as error:
                self._say(f"job {job.number} cannot be started: {error.strerror or error}")
                attempt.status = (NO_SPACE if error.errno == errno.ENOSPC else ERROR) << 8

    def _run_path(self, job: Job) -> Path:
        from hotloop.envs.loader import short_name
        from hotloop.tracking.store_url import runs_folder

        name = job.spec.get("name")
        if name is None:
            env = job.spec.get("config", {}).get("env", {}).get("name", job.kind)
            digest = hashlib.sha256(job.key.encode()).hexdigest()[:6]
            name = f"{_plain_name(short_name(env))}-job-{job.number}-{digest}"
        return runs_folder(self._home.absolute()) / name

    def _expected_memory(self, job: Job) -> int:
        """Return the memory that a job will need: as declared, as such jobs needed before, or a usual amount."""
        with self._queue.reading() as database:
            (peak,) = database.execute("SELECT max(peak) FROM jobs WHERE shape = ?", (job.shape,)).fetchone()
        return max(job.memory or 0, peak or 0) or DEFAULT_MEMORY

    def _threads_per_job(self, count: int) -> int:
        return max(1, self._monitor.cores // max(1, count))

    def _share_threads(self) -> None:
        """Give idle cores to training jobs, and take them back when more jobs run."""
        threads = self._threads_per_job(len(self._attempts))
        for attempt in self._attempts.values():
            wanted = max(attempt.job.cores, threads)
            if attempt.job.kind == "train" and attempt.threads != wanted:
                with contextlib.suppress(OSError):
                    attempt.folder.ask_threads(wanted)
                    attempt.threads = wanted

    # Measurements

    def _sample(self, now: float) -> None:
        seconds, self._sampled = now - self._sampled, now
        attempts = self._attempts.values()
        self._monitor.sample(attempts, seconds)
        for attempt in attempts:
            attempt.folder.rotate_log()
        if self._monitor.memory_short and len(attempts) > 1 and not any(attempt.job.wish for attempt in attempts):
            self._preempt(
                min(attempts, key=_cost), f"preempted: {machine.memory().available >> 20} MB of memory are left"
            )

    def _adapt(self, now: float) -> None:
        seconds, self._adapted = now - self._adapted, now
        (waiting,) = self._queue.query_named(
            "SELECT count(*) AS jobs, avg(CASE WHEN gpus > 0 THEN ? - queued END) AS gpu_wait FROM jobs "
            "WHERE state = 'queued' AND paused = 0",
            time.time(),
        )
        decision = self._monitor.decide(
            self._attempts.values(), waiting["jobs"], seconds, gpu_wait=waiting["gpu_wait"] or 0.0
        )
        if decision is not None:
            self._queue.note(*decision)


def _cost(attempt: Attempt) -> tuple[int, float]:
    """Order of victims: lowest priority, then least work since the last checkpoint."""
    saved = attempt.job.started or 0.0
    if attempt.job.run is not None:
        for folder in ("checkpoints", "recovery"):
            with contextlib.suppress(OSError):
                saved = max(saved, (Path(attempt.job.run) / folder).stat().st_mtime)
    return attempt.job.priority, time.time() - saved


def _was_killed(status: int | None) -> bool:
    return status is None or status & 0x7F == signal.SIGKILL


def _newest_checkpoint(run: str | None) -> str | None:
    from hotloop.training.checkpoint import newest_first

    if run is None or not Path(run).is_dir():
        return None
    return next((str(path) for path in newest_first(Path(run))), None)


def _group_use(database: Database, now: float) -> dict[str, float]:
    rows = database.execute("SELECT name, used, at FROM job_groups").fetchall()
    return {name: decayed(used, at, now) for name, used, at in rows}


def _charge(database: Database, job: Job) -> None:
    """Add the core-seconds of an attempt that ended to its group's use."""
    now = time.time()
    used = _group_use(database, now).get(job.group_name, 0.0) + job.cores * max(0.0, now - (job.started or now))
    database.insert("job_groups", ("name", "used", "at"), [(job.group_name, used, now)], unique=("name",))


def _plain_name(text: str) -> str:
    return re.sub(r"[^\w.+=@-]+", "-", text).strip("-.") or "job"
