"""A tabular training session: the engine and its counters, saved to and restored from checkpoints."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from hotloop.config.tabular.settings import settings, threads
from hotloop.config.tabular.spaces import spaces
from hotloop.errors import CheckpointError, TrainingError
from hotloop.policies.evaluation import Evaluation
from hotloop.tabular.engines import make_engine
from hotloop.tabular.evaluation import evaluate_exactly, exact_options
from hotloop.tabular.player import TablePlayer, from_arrays, to_arrays
from hotloop.training import checkpoint as checkpoints
from hotloop.training.callbacks import TimeSplit
from hotloop.training.counters import Counters
from hotloop.training.evaluation import Progress, evaluate, evaluation_seed
from hotloop.training.iteration_stats import IterationStats
from hotloop.training.manifest import check_fit, check_ownership, identity, manifest
from hotloop.training.session_protocol import Summary

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.config import Config
    from hotloop.episodes.best_replays import Top
    from hotloop.ppo.collector import Heartbeat
    from hotloop.runners.health import WorkerHealth
    from hotloop.runners.reports import Fault
    from hotloop.training.callbacks import IterationReport
    from hotloop.training.checkpoint import Arrays, Checkpoint
    from hotloop.training.control import Controller, Decision


class TabularSession:
    """A table with its envs, at the start of a run or at one of its checkpoints.

    Args:
        config: The run's config.
        first: Another run's table to start from.
        attempt: Number of rollbacks; part of every random key.
    """

    def __init__(self, config: Config, *, first: tuple[Arrays, Arrays] | None = None, attempt: int = 0) -> None:
        self.config = config
        self.spaces = spaces(config)
        self.engine = make_engine(config, self.spaces, settings(config, attempt=attempt))
        self.steps_per_iteration = self.engine.steps_per_iteration
        self.counters = Counters(attempt=attempt, recent=deque(maxlen=config.train.until_episodes))
        self.top: Top | None = None
        self._error = [0.0, 0]
        if first is not None:
            self._set_first_table(first[0])

    def summary(self) -> Summary:
        """Return a summary for people."""
        tabular = self.config.tabular
        kind = (
            f"{tabular.table} table of {self.spaces.states} states x {self.spaces.actions} actions, {tabular.storage}"
        )
        return Summary(
            learner=f"{self.config.train.algorithm}: {self.engine.about}",
            work=f"{self.engine.steps_per_iteration} steps an iteration, {kind} ({self.engine.memory / 2**20:.1f} MB)",
            parameters=self.spaces.states * self.spaces.actions,
            num_threads=threads(self.config),
            notes=self.engine.notes,
        )

    @property
    def learning_rate(self) -> float:
        """The initial learning rate: schedules advance per transition, inside the engine."""
        return self.config.tabular.learning_rate

    def next_change(self) -> int | None:
        """Return `None`: schedules advance per transition, inside the engine."""
        return None

    def set_threads(self, count: int) -> None:
        """Keep the threads: they divide a table's work, so results depend on them."""

    def workers(self) -> tuple[WorkerHealth, ...]:
        """Return nothing: tables are trained in this process."""
        return ()

    def take_faults(self) -> list[Fault]:
        """Return nothing: the envs run in this process, and their exceptions are raised."""
        return []

    def promises(self, until: float) -> bool:
        """Return whether an evaluation may confirm that this mean return is reached.

        Exact evaluations are cheap and always worth it: returns of exploring episodes say little.
        """
        if exact_options(self.config.env.name, self.config.env.options) is not None:
            return True
        return self.counters.return_recent >= until

    def advance(self, count: int, seconds: float, heartbeat: Heartbeat | None = None) -> None:
        """Run up to `count` iterations; none starts after `seconds`."""
        start = time.perf_counter()
        iterations, steps = self.engine.advance(count, seconds)
        spent = time.perf_counter() - start
        self.counters.add(IterationStats(iterations, steps, spent, TimeSplit(learn=spent)))

    def gather(self) -> None:
        """Add the episodes and updates that the engine has counted since the last call."""
        tally = self.engine.tally()
        self.counters.add_episodes(tally)
        self._error[0] += tally["error"]
        self._error[1] += tally["updates"]

    def record(self, *, with_statistics: bool) -> IterationReport:
        """Return the record of the iterations since the last one."""
        error, updates = self._error
        measures = {
            "td_error": error / updates if updates else math.nan,
            "states": float(self.engine.rows),
            "table_megabytes": self.engine.memory / 1e6,
        }
        self._error = [0.0, 0]
        return self.counters.take_report(self.spaces.spec, learning_rate=self.learning_rate, measures=measures)

    def controllers(self) -> list[Controller]:
        """Return nothing: `control` is for PPO."""
        return []

    def apply(self, decision: Decision) -> None:
        """Refuse: tables are trained under fixed conditions."""
        raise TrainingError(
            f"controllers are for PPO: {self.config.train.algorithm} cannot {decision.what or 'change'}"
        )

    def evaluate(self, progress: Progress | None = None) -> Evaluation:
        """Compute the expected return exactly if the env can be enumerated; otherwise play episodes."""
        env, train = self.config.env, self.config.train
        options = exact_options(env.name, env.options)
        if options is not None:
            return evaluate_exactly(self.engine.table(), env.name, options, self.config.tabular.gamma)
        if self.engine.plays is not None:
            return self.engine.plays(train.evaluate_episodes, evaluation_seed(train.seed))
        return evaluate(
            TablePlayer(self.engine.table()),
            env.name,
            env.options,
            episodes=train.evaluate_episodes,
            seed=evaluation_seed(train.seed),
            num_threads=1,
            progress=progress,
        )

    def policy_bytes(self) -> bytes:
        """Return the contents that a checkpoint's `policy.safetensors` would have now."""
        from safetensors.numpy import save

        return save(to_arrays(self.engine.table()))

    def manifest(self, date: str) -> dict[str, Any]:
        """Return the description of the table that a checkpoint would have now."""
        tabular = self.config.tabular
        facts = manifest(
            self.config,
            self.counters,
            self.spaces.spec,
            learner=self.engine.about,
            threads=threads(self.config),
            date=date,
        )
        return facts | {
            "algorithm": self.config.train.algorithm,
            "table": {
                "states": 0 if tabular.table == "sparse" else self.spaces.states,
                "actions": self.spaces.actions,
                "initial_value": tabular.initial_value,
            },
            "gamma": tabular.gamma,
            "action_repeat": 1,
        }

    def save(self, folder: Path, date: str) -> Path:
        """Write a checkpoint."""
        self.gather()
        counters = {**self.counters.to_json(), "error": self._error}
        return checkpoints.save(folder, self.policy_bytes(), {}, self.engine.snapshot(), counters, self.manifest(date))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint."""
        check_ownership(checkpoint, {**identity(self.config), "algorithm": self.config.train.algorithm})
        _, envs, counters = checkpoint.state()
        with check_fit(checkpoint):
            self.engine.set_table(from_arrays(checkpoint.policy()[0], checkpoint.manifest["table"]))
            self.engine.restore(envs)
            self._error = counters.pop("error")
            restored = Counters.from_json(counters, self.config.train.until_episodes)
        self.counters = restored

    def save_batch(self, path: Path) -> None:
        """Raise: tables have no gradients that could fail."""
        raise TrainingError(f"tabular training has no batch to save to {path}")

    def close(self) -> None:
        """Release the engine's resources."""
        self.engine.close()

    def _set_first_table(self, arrays: Arrays) -> None:
        states = 0 if "states" in arrays else self.spaces.states
        table = {
            "states": states,
            "actions": self.spaces.actions,
            "initial_value": self.config.tabular.initial_value,
        }
        try:
            self.engine.set_table(from_arrays(arrays, table))
        except (CheckpointError, ValueError) as error:
            raise CheckpointError(f"the run to begin from has another table: {error}") from None
