"""A table that learns in a run: the engine, its counters, and how they go to a checkpoint and come back."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from hotloop.config.tabular.settings import settings, threads
from hotloop.config.tabular.spaces import spaces
from hotloop.errors import CheckpointError, TrainingError, UnusableCheckpointError
from hotloop.policies.evaluation import Evaluation
from hotloop.tabular.engines import make_engine
from hotloop.tabular.evaluation import evaluate_exactly, exact_options
from hotloop.tabular.player import TablePlayer, from_arrays, to_arrays
from hotloop.training import checkpoint as checkpoints
from hotloop.training.counters import Counters, Since
from hotloop.training.evaluation import Progress, evaluate, evaluation_seed
from hotloop.training.manifest import check_ownership, identity, manifest
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

_NOT_OURS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm", "epochs")


class TabularSession:
    """A table with its envs, at the start of a run or at one of its checkpoints.

    Args:
        config: The run's.
        first: Another run's table to begin with.
        attempt: Part of every random key.
    """

    def __init__(
        self, config: Config, *, first: tuple[Arrays, Arrays] | None = None, attempt: int = 0, debug: bool = False
    ) -> None:
        self.config = config
        self.spaces = spaces(config)
        self.engine = make_engine(config, self.spaces, settings(config, attempt=attempt))
        self.steps_per_iteration = self.engine.steps_per_iteration
        self.counters = Counters(attempt=attempt, recent=deque(maxlen=config.train.until_episodes))
        self.top: Top | None = None
        self._error = [0.0, 0]
        if first is not None:
            self._begin_with(first[0])

    def summary(self) -> Summary:
        """What learns, in words."""
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
        """The first one; schedules go by transition."""
        return self.config.tabular.learning_rate

    def next_change(self) -> int | None:
        """Schedules go by transition, inside the engine."""
        return None

    def workers(self) -> tuple[WorkerHealth, ...]:
        """Nothing: tables are trained in this process."""
        return ()

    def take_faults(self) -> list[Fault]:
        """Nothing: envs of tables run in this process and raise."""
        return []

    def promises(self, until: float) -> bool:
        """Whether an evaluation may confirm that this return is reached; what explores is no measure of it."""
        if exact_options(self.config.env.name, self.config.env.options) is not None:
            return True
        return self.counters.return_recent >= until

    def advance(self, count: int, seconds: float, heartbeat: Heartbeat | None = None) -> None:
        """Makes up to `count` iterations; none begins after these seconds."""
        start = time.perf_counter()
        iterations, steps = self.engine.advance(count, seconds)
        spent = time.perf_counter() - start
        self.counters.iterations += iterations
        self.counters.steps += steps
        self.counters.seconds += spent
        told = {"iterations": iterations, "steps": steps, "gradient_steps": 0, "dropped": 0}
        times = {"seconds_learn": spent, "seconds_total": spent, "seconds_env": 0.0, "seconds_inference": 0.0}
        nothing = dict.fromkeys((*_NOT_OURS, "explained_variance"), math.nan)
        self.counters.since.add({**told, **times, **nothing}, spent)

    def gather(self) -> None:
        """Takes over what the engine has counted."""
        told = self.engine.tally()
        self.counters.episodes += told["count"]
        self.counters.recent.extend(told["returns"].tolist())
        self.counters.since.add_episodes(told)
        self._error[0] += told["error"]
        self._error[1] += told["updates"]

    def record(self, *, with_statistics: bool) -> IterationReport:
        """The record of the iterations since the last one."""
        error, updates = self._error
        measures = {
            "td_error": error / updates if updates else math.nan,
            "states": float(self.engine.rows),
            "table_megabytes": self.engine.memory / 1e6,
        }
        self._error = [0.0, 0]
        rates = {"learning_rate": self.learning_rate, "entropy": math.nan}
        spec = self.spaces.spec
        report = self.counters.report(rates, spec.terms, spec.metrics, None, measures)
        self.counters.since = Since()
        return report

    def controllers(self) -> list[Controller]:
        """Nothing: `control` is for PPO."""
        return []

    def apply(self, decision: Decision) -> None:
        """Refuse: tables are trained under fixed conditions."""
        raise TrainingError(
            f"controllers are for PPO: {self.config.train.algorithm} cannot {decision.what or 'change'}"
        )

    def evaluate(self, progress: Progress | None = None) -> Evaluation:
        """Exactly where the env can be enumerated, else by fresh episodes."""
        env, train = self.config.env, self.config.train
        options = exact_options(env.name, env.options)
        if options is not None:
            found = evaluate_exactly(self.engine.table(), env.name, options, self.config.tabular.gamma)
        elif self.engine.plays is not None:
            found = self.engine.plays(train.evaluate_episodes, evaluation_seed(train.seed))
        else:
            found = evaluate(
                TablePlayer(self.engine.table()),
                env.name,
                env.options,
                episodes=train.evaluate_episodes,
                seed=evaluation_seed(train.seed),
                num_threads=1,
                progress=progress,
            )
        return found

    def policy_bytes(self) -> bytes:
        """The table, as a checkpoint keeps it."""
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
        """Goes to a checkpoint."""
        check_ownership(checkpoint, {**identity(self.config), "algorithm": self.config.train.algorithm})
        _, envs, counters = checkpoint.state()
        try:
            self.engine.set_table(from_arrays(checkpoint.policy()[0], checkpoint.manifest["table"]))
            self.engine.restore(envs)
            self._error = counters.pop("error")
            restored = Counters.from_json(counters, self.config.train.until_episodes)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UnusableCheckpointError(f"the checkpoint {checkpoint.path} does not fit this run: {error}") from None
        self.counters = restored

    def save_batch(self, path: Path) -> None:
        """Tables have no gradients that could fail."""
        raise TrainingError(f"there is no batch to keep in {path}")

    def close(self) -> None:
        """Ends what the engine holds."""
        self.engine.close()

    def _begin_with(self, arrays: Arrays) -> None:
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
