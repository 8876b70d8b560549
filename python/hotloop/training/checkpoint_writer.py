"""Checkpoints of a run as they are written: on schedule, and in between for recovery after a kill."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from hotloop.training import checkpoint as checkpoints
from hotloop.training.callbacks import CheckpointReport
from hotloop.training.recovery import RecoverySchedule
from hotloop.training.runs import now

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.training.checkpoint import Checkpoint
    from hotloop.training.counters import Counters
    from hotloop.training.recorder import Recorder
    from hotloop.training.reporter import Reporter
    from hotloop.training.runs import RunFolder
    from hotloop.training.session_protocol import TrainingSession


class CheckpointWriter:
    """Writes checkpoints in agreement with the journal.

    Args:
        folder: The run's folder.
        recorder: Writes the journal.
        reporter: Receives an event for each checkpoint of the run.
        keep_last: Number of checkpoints that are kept besides the best.
    """

    def __init__(self, folder: RunFolder, recorder: Recorder, reporter: Reporter, keep_last: int) -> None:
        self._folder = folder
        self._recorder = recorder
        self._reporter = reporter
        self._keep_last = keep_last
        self._saved_at: int | None = None
        self.recovery = RecoverySchedule()

    def resume(self, found: Checkpoint, counters: Counters) -> None:
        """Go on from a checkpoint that was restored."""
        if found.path.parent != self._folder.recovery:
            self._saved_at = counters.iterations
            # A kill may have come before it was done.
            checkpoints.prune(self._folder.path, self._keep_last)
        self.recovery.saved(counters, 0.0)

    def has_saved(self, counters: Counters) -> bool:
        """Return whether the last checkpoint of the run is of this iteration."""
        return self._saved_at == counters.iterations

    def invalidate(self) -> None:
        """Note that the last checkpoint lacks what came after it at the same iteration."""
        self._saved_at = None

    def save(self, session: TrainingSession, *, is_best: bool) -> None:
        """Write a checkpoint of the run, and report it."""
        counters = session.counters
        start = time.perf_counter()
        path = self._folder.checkpoints / str(counters.steps)
        report = CheckpointReport(counters.iterations, counters.steps, path, is_best)
        with self._folder.writing():
            # First the event, then the checkpoint: whichever a kill spares, resuming finds them in agreement.
            counters.journal_bytes = self._recorder.commit(report)
            try:
                session.save(self._folder.checkpoints, now())
            except OSError:
                with contextlib.suppress(OSError):
                    self._recorder.retract(report)
                raise
            checkpoints.prune(self._folder.path, self._keep_last)
        self._reporter.faults(session)
        self._saved_at = counters.iterations
        self.recovery.saved(counters, time.perf_counter() - start)
        self._reporter.emit("checkpoint", report, counters)

    def save_for_recovery(self, session: TrainingSession) -> None:
        """Save the state that a kill would lose; the next checkpoint replaces it, and no record mentions it."""
        start = time.perf_counter()
        with self._folder.writing():
            session.counters.journal_bytes = self._recorder.sync()
            path = session.save(self._folder.recovery, now())
            checkpoints.keep_only(path)
        self._saved_at = None
        self.recovery.saved(session.counters, time.perf_counter() - start)

    def save_batch(self, session: TrainingSession) -> Path:
        """Save the data of the last gradient steps, for debugging; return the file."""
        path = self._folder.path / "not-finite.safetensors"
        with self._folder.writing():
            session.save_batch(path)
        return path
