"""Sessions of a worker process, and the processes of Python envs that outlive a trial: starting them costs seconds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hotloop.envs.registry import is_native
from hotloop.sweeps.tasks import PrunedError
from hotloop.training.session import Session
from hotloop.training.session_protocol import TrainingSession, open_session
from hotloop.training.sources import PythonSource, Source, make_runner

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.runners.processes import ProcessRunner

Purpose = bool
"""Whether a runner is for evaluations."""


class Warm:
    """Opens the sessions of trials, one at a time."""

    def __init__(self) -> None:
        self._kept: dict[Purpose, tuple[str, ProcessRunner]] = {}

    @contextlib.contextmanager
    def session(self, config: Config) -> Iterator[TrainingSession]:
        """Yield a session at its start; Python envs run in the processes of an earlier one if those fit."""
        if config.train.algorithm != "ppo" or is_native(config.env.name):
            session = open_session(config)
            if isinstance(session, Session):
                session.keeps_replays = False
            try:
                yield session
            finally:
                session.close()
            return
        runners: dict[Purpose, ProcessRunner] = {}
        session = _WarmSession(config, self, runners)
        try:
            yield session
        except BaseException as error:
            if not isinstance(error, PrunedError):
                # Their envs may be in flight.
                for runner in runners.values():
                    runner.close()
                runners.clear()
            raise
        finally:
            for purpose, runner in runners.items():
                runner.forget_listeners()
                self._kept[purpose] = _key(config, runner.env_count, purpose), runner

    def take(self, config: Config, num_envs: int, purpose: Purpose) -> ProcessRunner:
        """Return the kept runner if it fits, else a new one in its place."""
        key, runner = self._kept.pop(purpose, ("", None))
        if runner is not None:
            if key == _key(config, num_envs, purpose):
                return runner
            runner.close()
        return make_runner(config, num_envs, evaluates=purpose)

    def shut_down(self) -> None:
        """Stop all processes."""
        while self._kept:
            self._kept.popitem()[1][1].close()


def _key(config: Config, num_envs: int, purpose: Purpose) -> str:
    """Return everything that a runner depends on."""
    parts = config.model_dump(mode="json", include={"env", "runner", "wrap"})
    return json.dumps([parts, config.track.infos, config.train.evaluate_env if purpose else {}, num_envs])


class _WarmSession(Session):
    """A session with Python envs whose processes are kept."""

    def __init__(self, config: Config, warm: Warm, runners: dict[Purpose, ProcessRunner]) -> None:
        self._warm, self._runners = warm, runners
        super().__init__(config)

    def _make_source(self, *, debug: bool) -> Source:
        self._runners[False] = self._warm.take(self.config, self.config.runner.num_envs, purpose=False)
        return PythonSource(self.config, runner=self._runners[False])

    def _make_evaluation_runner(self, num_envs: int) -> ProcessRunner:
        self._runners[True] = self._warm.take(self.config, num_envs, purpose=True)
        return self._runners[True]
