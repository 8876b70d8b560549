"""Policies that a run leaves on its way, for people who watch: a ladder of past ones, and the newest while one watches.

They have no state to resume from, and are no part of a run's results: nothing that is learned depends on them, and
whatever is wrong with them costs nothing but a rebuild.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import TYPE_CHECKING, Final

from hotloop import files
from hotloop.training.checkpoint import check_folder, checkpoint_paths, policy_files
from hotloop.training.runs import now

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.training.session_protocol import TrainingSession

LADDER: Final = "policies"
LIVE: Final = "live"
WATCHED: Final = "watched"
# Policies at even spacing that are kept at most; those after a power of two of iterations come on top.
_MOST: Final = 32
_FIRST_SPACING: Final = 16
# Bytes that all of them may take.
_MOST_BYTES: Final = 64 << 20
# Seconds of training before which nothing is written: a shorter run is rebuilt in no time.
_WORTH_IT: Final = 1.0
# Seconds between looks for a watcher, between newest policies, and for which a sign of a watcher counts.
_LOOK_EVERY: Final = 1.0
_LIVE_EVERY: Final = 2.0
_WATCHED_FOR: Final = 15.0


def spacing(iterations: int, most: int = _MOST) -> int:
    """The spacing of the ladder's policies after so many iterations: a power of two.

    >>> [spacing(iterations) for iterations in (1, 512, 513, 100_000)]
    [16, 16, 32, 4096]
    """
    size = _FIRST_SPACING
    while iterations > size * most:
        size *= 2
    return size


def is_kept(iteration: int, reached: int, most: int = _MOST) -> bool:
    """Whether the policy after an iteration is on the ladder of a run that has reached another.

    >>> [iteration for iteration in range(1, 100) if is_kept(iteration, 99)]
    [1, 2, 4, 8, 16, 32, 48, 64, 80, 96]
    """
    return iteration & (iteration - 1) == 0 or iteration % spacing(reached, most) == 0


class PolicyLadder:
    """Writes policies of a run into its folder."""

    def __init__(self, run: Path) -> None:
        self._folder = run / LADDER
        self._live = run / LIVE
        for folder in (self._folder, self._live):
            check_folder(folder)
        self._watched = run / WATCHED
        self._waiting: dict[int, tuple[int, dict[str, bytes]]] = {}
        self._written: dict[int, int] = {}
        """The iteration of each step."""
        self._most = _MOST
        self._looked = self._left = -1e9
        self._left_at: int | None = None

    def iterations_to_go(self, iterations: int) -> int:
        """Return the number of iterations to the next policy of the ladder."""
        size = spacing(iterations + 1, self._most)
        return min(1 << iterations.bit_length(), (iterations // size + 1) * size) - iterations

    def look(self, session: TrainingSession) -> None:
        """Keep the current policy if it is one of the ladder; errors of the disk only cost the policy."""
        counters = session.counters
        done = counters.iterations
        if not done or counters.steps in self._written or not is_kept(done, done, self._most):
            return
        self._written[counters.steps] = done
        policy = session.policy_bytes()
        self._most = min(_MOST, _MOST_BYTES // (2 * len(policy)))
        if self._most < 2:
            return
        self._waiting[counters.steps] = done, policy_files(policy, session.manifest(now()))
        if counters.seconds >= _WORTH_IT:
            with contextlib.suppress(OSError):
                self._write(done)

    def _write(self, reached: int) -> None:
        for steps, (_, content) in self._waiting.items():
            files.place_folder(self._folder / str(steps), content, durable=False)
        self._waiting.clear()
        for steps, iteration in list(self._written.items()):
            if not is_kept(iteration, reached, self._most):
                del self._written[steps]
                shutil.rmtree(self._folder / str(steps), ignore_errors=True)

    def leave_newest(self, session: TrainingSession) -> None:
        """Leave the current policy for whoever watches, if anyone does; called often."""
        at = time.monotonic()
        if at - self._looked < _LOOK_EVERY:
            return
        self._looked = at
        try:
            is_watched = time.time() - os.stat(self._watched).st_mtime < _WATCHED_FOR  # noqa: PTH116 - called often
        except OSError:
            return
        steps = session.counters.steps
        if not is_watched or at - self._left < _LIVE_EVERY or steps == self._left_at:
            return
        self._left, self._left_at = at, steps
        with contextlib.suppress(OSError):
            content = policy_files(session.policy_bytes(), session.manifest(now()))
            files.place_folder(self._live / str(steps), content, durable=False)
            for path in checkpoint_paths(self._live)[:-2]:
                shutil.rmtree(path, ignore_errors=True)

    def forget_after(self, steps: int) -> None:
        """Drop policies of steps that a run goes back behind."""
        self._waiting = {at: found for at, found in self._waiting.items() if at <= steps}
        self._written = {at: iteration for at, iteration in self._written.items() if at <= steps}
        for path in (*checkpoint_paths(self._folder), *checkpoint_paths(self._live)):
            if int(path.name) > steps:
                shutil.rmtree(path, ignore_errors=True)

    def resume(self) -> None:
        """Take in what an earlier part of the run has written."""
        for path in checkpoint_paths(self._folder):
            with contextlib.suppress(files.UnreadableFileError):
                iterations = files.read_object(path / "manifest.json").get("iterations")
                if isinstance(iterations, int):
                    self._written[int(path.name)] = iterations

    def close(self) -> None:
        """Remove the newest policy, which the last checkpoint replaces."""
        shutil.rmtree(self._live, ignore_errors=True)


def note_watcher(run: Path) -> None:
    """Tell the process that trains a run that somebody watches."""
    with contextlib.suppress(OSError):
        # A run from elsewhere may have a link there.
        handle = os.open(run / WATCHED, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        try:
            os.utime(handle)
        finally:
            os.close(handle)
