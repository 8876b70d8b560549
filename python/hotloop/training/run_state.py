"""The state of a run in memory: its session and controllers, at the start or restored from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.errors import CheckpointError, UnusableCheckpointError
from hotloop.training import checkpoint as checkpoints
from hotloop.training.control import ControlPlane, ControlState
from hotloop.training.session_protocol import TrainingSession, open_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.config import Config
    from hotloop.training.checkpoint import Arrays, Checkpoint
    from hotloop.training.control import Controller


class RunState:
    """A session and its controllers; restoring may replace the session.

    Args:
        config: The run's config.
        run: The run's folder.
        first: Initial weights, if they are not random.
        opponents: Frozen opponents.
        controllers: Controllers besides those of the config.
        debug: Whether to run iterations in parts on one thread and check every array.
        trust: Whether code that a checkpoint names is trusted.
    """

    def __init__(
        self,
        config: Config,
        run: Path,
        *,
        first: tuple[Arrays, Arrays] | None,
        opponents: Sequence[Checkpoint],
        controllers: Sequence[Controller],
        debug: bool,
        trust: bool,
    ) -> None:
        self._config = config
        self._run = run
        self._first = first
        self._opponents = opponents
        self._debug = debug
        self._trust = trust
        self.session: TrainingSession = self._open(0)
        try:
            self.control = ControlPlane([*self.session.controllers(), *controllers])
        except BaseException:
            self.session.close()
            raise

    def _open(self, attempt: int) -> TrainingSession:
        return open_session(
            self._config, first=self._first, opponents=self._opponents, attempt=attempt, debug=self._debug
        )

    def restore_newest(self, *, attempt: int = 0) -> tuple[Checkpoint | None, list[str]]:
        """Restore the newest intact checkpoint, or the start if there is none, with the random keys of this attempt.

        Returns the checkpoint, and notices of damaged ones that were set aside.
        """
        damaged: dict[Path, str] = {}
        for path in checkpoints.newest_first(self._run):
            try:
                found = checkpoints.open_checkpoint(path, trust=self._trust)
                self._rebuild(max(attempt, found.manifest["attempt"]))
                self.session.restore(found)
                self.control.restore(self.session.counters.control)
            except UnusableCheckpointError as error:
                raise UnusableCheckpointError(f"{error}. {self._advice}") from None
            except CheckpointError as error:
                damaged[path] = f"refused: {error}"
            else:
                if not damaged:
                    return found, []
                aside = checkpoints.set_aside(self._run, list(damaged))
                return found, [f"{each}; it is now in {aside.name}" for each in damaged.values()]
        if damaged:
            raise CheckpointError(f"no checkpoint of the run is usable: {'; '.join(damaged.values())}. {self._advice}")
        self._rebuild(attempt)
        self.control.restore(ControlState())
        return None, []

    @property
    def _advice(self) -> str:
        return (
            "Nothing was deleted: undo the change, or begin again with "
            f"'hotloop train --resume {self._run.name} --restart', which sets the old checkpoints aside"
        )

    def _rebuild(self, attempt: int) -> None:
        """Open a new session if this one is of another attempt, which is part of every random key."""
        if self.session.counters.attempt != attempt:
            self.session.close()
            self.session = self._open(attempt)
