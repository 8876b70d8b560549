"""The recorder: a callback that writes events to the run's journal, from which a thread fills the store."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hotloop import _core
from hotloop.text import plain
from hotloop.tracking import journal, provenance
from hotloop.tracking.journal import Journal
from hotloop.tracking.sync_thread import Notice, SyncThread
from hotloop.training.callbacks import Callback
from hotloop.training.checkpoint import FIRST
from hotloop.training.record_lines import record_line

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.config.models import EnvConfig
    from hotloop.runners.health import WorkerHealth
    from hotloop.tracking.store_url import StoreUrl
    from hotloop.training.callbacks import (
        CheckpointReport,
        ControlReport,
        EvaluationProgress,
        EvaluationReport,
        IterationReport,
        ProgressReport,
        StartReport,
        TroubleReport,
        ValuesReport,
    )
    from hotloop.training.runs import Run

__all__ = ["Recorder", "plain"]


class Recorder(Callback):
    """Writes through background threads: training waits neither for the disk nor for a server.

    Args:
        folder: The run's folder.
        store: Store that lists the run; `None` for none.
        trackers: Names of additional trackers.
    """

    def __init__(self, folder: Path, *, store: StoreUrl | None, trackers: Sequence[str] = ()) -> None:
        self._folder = folder
        self._store = store
        self._trackers = trackers
        self._journal: Journal | None = None
        self._sync_thread: SyncThread | None = None
        self._steps = 0
        self._workers: tuple[WorkerHealth, ...] = ()

    def start(self, report: StartReport) -> None:
        """Open the journal and start the thread that fills the store."""
        path = self._folder / journal.NAME
        # With an error of the disk for an answer, the run would go on under another id.
        first = journal.read_start(path) if os.path.lexists(path) else None
        run = secrets.token_hex(6) if first is None else first["id"]
        self._steps = report.resumed_at or 0
        self._journal = Journal(path)
        makers = []
        if self._trackers:
            from hotloop.tracking.trackers import factory

            makers = [factory(name, self._folder) for name in self._trackers]
        self._sync_thread = SyncThread(self._folder, self._store, makers, self._note_resources)
        size = path.stat().st_size
        valid = None if report.journal_bytes is None else min(report.journal_bytes, size)
        self._note(
            "start",
            lambda: {
                **_start_facts(report, run, self._store),
                "initial_weights": _digest(report.path / FIRST),
                "valid_bytes": valid,
            },
        )

    def progress(self, report: ProgressReport) -> None:
        """Send a heartbeat, and remember the health of workers."""
        self._workers = report.workers
        if self._sync_thread is not None:
            self._sync_thread.beat()

    def evaluating(self, report: EvaluationProgress) -> None:
        """Send a heartbeat."""
        if self._sync_thread is not None:
            self._sync_thread.beat()

    def iteration(self, report: IterationReport) -> None:
        """Write a record."""
        self._steps = report.steps
        if self._journal is not None:
            self._journal.append_line(lambda at: record_line(at, report))

    def evaluation(self, report: EvaluationReport) -> None:
        """Write an evaluation."""
        self._note("evaluation", lambda: vars(report))

    def control(self, report: ControlReport) -> None:
        """Write the decisions of controllers."""
        self._note("control", lambda: vars(report))

    def values(self, report: ValuesReport) -> None:
        """Write the values that a callback logged."""
        self._note("values", lambda: vars(report))

    def commit(self, report: CheckpointReport) -> int | None:
        """Write the event of a checkpoint that is about to be saved; return the length of the journal with it.

        The checkpoint keeps that length, so that resuming from it finds its event, and knows which events are void.
        """
        if self._journal is None:
            return None
        path = os.path.relpath(report.path, self._folder)
        self._note("checkpoint", lambda: {**vars(report), "path": path})
        return self._journal.sync()

    def retract(self, report: CheckpointReport) -> None:
        """Take the event of a checkpoint back that could not be saved."""
        self._note("retraction", lambda: {"iterations": report.iterations, "steps": report.steps})

    def sync(self) -> int | None:
        """Write all events so far to the disk; return the length of the journal."""
        return None if self._journal is None else self._journal.sync()

    def trouble(self, report: TroubleReport) -> None:
        """Write a problem; a rollback voids records of later steps."""
        self._note("trouble", lambda: vars(report))

    def end(self, run: Run) -> None:
        """Write the end of the run, and close the journal."""
        status = "stopped" if run.ended == "interrupted" else "completed"
        self._end(status, run.ended, run.steps, run.iterations, run.episodes, run.seconds, run.return_mean)

    def fail(self, why: str, steps: int, iterations: int, episodes: int, seconds: float, return_recent: float) -> None:
        """Write the failure of the run, and close the journal."""
        self._end("failed", why, steps, iterations, episodes, seconds, return_recent)

    def notices(self) -> list[Notice]:
        """Return notices of the background threads."""
        return [] if self._sync_thread is None else self._sync_thread.notices()

    def _end(self, status: str, ended: str, *counted: float) -> None:
        if self._journal is None:
            return
        names = ("steps", "iterations", "episodes", "seconds", "return_recent")
        facts = {"status": status, "ended": ended, **dict(zip(names, counted, strict=True))}
        recording, self._journal = self._journal, None
        try:
            recording.append(lambda: {"event": "end", **facts})
            recording.close()
        finally:
            if self._sync_thread is not None:
                self._sync_thread.finish()

    def _note(self, event: str, make: Callable[[], dict[str, Any]]) -> None:
        if self._journal is not None:
            self._journal.append(lambda: {"event": event, **make()})

    def _note_resources(self, sample: dict[str, Any]) -> None:
        of = _with_health(sample, self._workers)
        self._note("resources", lambda: {"steps": self._steps, "of": of})


def _with_health(sample: dict[str, Any], workers: Sequence[WorkerHealth]) -> dict[str, Any]:
    """Return a sample of resources in which workers of Python envs have their indices and their health."""
    if not workers:
        return sample
    taken = {facts.get("process"): facts for who, facts in sample.items() if who.startswith("worker ")}
    result = {who: facts for who, facts in sample.items() if not who.startswith("worker ")}
    for worker in workers:
        result[f"worker {worker.worker}"] = {
            "cpu": None,
            "memory": worker.memory,
            "process": worker.pid,
            **taken.get(worker.pid, {}),
            "state": worker.state,
            "restarts": worker.restarts,
            "faults": worker.faults,
            "why": None if worker.last_fault is None else f"{worker.last_fault.kind}: {worker.last_fault.what}",
        }
    return result


class Unrecorded(Recorder):
    """Records nothing; the baseline that the cost of recording is measured against."""

    def start(self, report: StartReport) -> None:
        """Open nothing, so that nothing is written."""


def _digest(path: Path) -> str | None:
    """Return a short digest of a file; `None` if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.exists() else None


def _start_facts(report: StartReport, run: str, store: StoreUrl | None) -> dict[str, Any]:
    return {
        "id": run,
        "run": report.run,
        "env": report.config.env.name,
        "seed": report.config.train.seed,
        "steps": report.resumed_at or 0,
        "resumed_at": report.resumed_at,
        "host": platform.node(),
        "process": os.getpid(),
        "store": None if store is None else store.shown,
        "in_home": store is not None and store.is_default,
        "learner": report.learner,
        "parameters": report.parameters,
        "threads": report.num_threads,
        "versions": provenance.versions(),
        "git": provenance.git_revision(),
        "machine": provenance.machine(),
        "config": report.config.model_dump(mode="json"),
        "env_options": recorded_options(report.config.env),
    }


def recorded_options(env: EnvConfig) -> dict[str, Any]:
    """Return the env's options; for a native env, defaults included."""
    if not _core.has_env(env.name):
        return env.options
    return {option["name"]: option["default"] for option in _core.env_entry(env.name)["options"]} | env.options
