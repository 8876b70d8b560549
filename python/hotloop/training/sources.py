"""Sources of rollouts: native envs that the learner collects from in native code, or any runner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hotloop import _core
from hotloop.envs.adapters.rows import SUCCESS
from hotloop.envs.reward_weights import reward_weights, set_reward_weights
from hotloop.envs.spec import EnvSpec, native_spec
from hotloop.runners.health import FaultLog
from hotloop.runners.reports import Fault
from hotloop.training.env_notes import env_notes, unscaled_actions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.config import Config
    from hotloop.ppo.collector import Heartbeat, RunnerCollector
    from hotloop.ppo.learners import Learner
    from hotloop.runners.base import Runner
    from hotloop.runners.health import WorkerHealth
    from hotloop.runners.processes import ProcessRunner

# Rows of a group; one thread runs a group for the whole horizon.
_GROUP_ROWS = 64


@dataclass(frozen=True)
class Iterations:
    """Iterations to run in one call."""

    settings: dict[str, Any]
    """Hyperparameters, equal for all of them."""
    count: int
    """How many at most."""
    seconds: float
    """None starts later than this."""
    heartbeat: Heartbeat | None = None
    """Called with the steps so far while an iteration waits for Python envs."""


class Source(Protocol):
    """The envs of a run, and iterations with them."""

    spec: EnvSpec
    rows: int
    notes: tuple[str, ...]
    """Notices, such as envs that restarted their episodes."""

    def health(self) -> tuple[WorkerHealth, ...]:
        """Return the health of every worker process; empty if there are none."""

    def take_faults(self) -> list[Fault]:
        """Return the faults of envs and workers, one by one, since the last call."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The env's options that the config sets; of native envs also those with default values."""

    @property
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term."""

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise a `ValueError` if these options cannot be changed between iterations."""

    def configure(self, options: Mapping[str, Any]) -> None:
        """Change options of all envs, each at its next reset."""

    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        """Change the weights of these reward terms, from the next step on."""

    def set_policies(self, table: Sequence[Sequence[int]]) -> None:
        """Set which policy plays each seat (`table[env][seat]`), from each env's next reset on."""

    def seed(self, seed: int, attempt: int) -> None:
        """Restart every random stream; `attempt` is part of its key. Call `reset` or `restore` first."""

    def reset(self, seed: int, attempt: int) -> None:
        """Start a new episode in every env."""

    def advance(self, learner: Learner, work: Iterations) -> dict[str, Any]:
        """Run iterations; return what the learner reports of them."""

    def episodes(self) -> _core._Episodes:
        """Return the episodes that finished since the last call."""

    def faults(self) -> int:
        """Return the number of env faults since the last call."""

    def snapshot(self) -> bytes:
        """Return the whole state of the envs."""

    def restore(self, state: bytes) -> None:
        """Restore a snapshot."""

    def close(self) -> None:
        """Stop threads and processes."""


class NativeSource:
    """Native envs: iterations are native calls."""

    notes: tuple[str, ...] = ()

    def __init__(self, config: Config, *, debug: bool = False) -> None:
        env, runner = config.env, config.runner
        self.spec = native_spec(env.name, env.options)
        self.notes = tuple(unscaled_actions(env.name, self.spec))
        self.rows = runner.num_envs * self.spec.seats
        self._debug = debug
        self._env = env
        self._faults = FaultLog(runner.restart_limit, runner.num_envs)
        self._pool = _core.Pool(
            env.name,
            runner.num_envs,
            num_threads=1,
            num_groups=min(runner.num_envs, -(-self.rows // _GROUP_ROWS)),
            options=env.options,
            autoreset="same_step",
            action_repeat=runner.action_repeat,
        )

    def health(self) -> tuple[WorkerHealth, ...]:
        """Return nothing: native envs have no worker processes."""
        return ()

    def take_faults(self) -> list[Fault]:
        """Return the faults with causes that were not reported yet; raise if there were too many."""
        self._count_faults()
        return self._faults.take()

    def _count_faults(self) -> None:
        count, first = self._pool.faults()
        self._faults.add(count, [Fault(*fault) for fault in first])

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that all envs began with, defaults included."""
        return self._pool.options()

    @property
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term."""
        return reward_weights(self._pool, self.spec.terms)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Try the options on an env of its own."""
        pool = _core.Pool(self._env.name, 1, num_threads=1, options=self._env.options)
        try:
            pool.configure(dict(options))
        finally:
            pool.close()

    def configure(self, options: Mapping[str, Any]) -> None:
        """Change options of all envs, each at its next reset."""
        self._pool.configure(dict(options))

    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        """Change the weights of these reward terms, from the next step on."""
        set_reward_weights(self._pool, self.spec.terms, weights)

    def set_policies(self, table: Sequence[Sequence[int]]) -> None:
        """Set which policy plays each seat, from each env's next reset on."""
        self._pool.set_policies([policy for seats in table for policy in seats])

    def seed(self, seed: int, attempt: int) -> None:
        """Restart every random stream."""
        self._pool.seed(seed, attempt)

    def reset(self, seed: int, attempt: int) -> None:
        """Start a new episode in every env."""
        self._pool.seed(seed, attempt)
        self._pool.reset()

    def advance(self, learner: Learner, work: Iterations) -> dict[str, Any]:
        """Run iterations; in debug mode one, in parts, with every array checked."""
        if self._debug:
            from hotloop.ppo.debug import iterate_checked

            return iterate_checked(learner, self._pool, work.settings)
        return learner.iterate(self._pool, work.settings, work.count, work.seconds)

    def episodes(self) -> _core._Episodes:
        """Return the episodes that finished since the last call."""
        return self._pool.episodes()

    def faults(self) -> int:
        """Return the number of faults since the last call."""
        self._count_faults()
        return self._faults.take_count()

    def snapshot(self) -> bytes:
        """Return the whole state of the envs."""
        return self._pool.snapshot()

    def restore(self, state: bytes) -> None:
        """Restore a snapshot."""
        self._pool.restore(state)

    def close(self) -> None:
        """Stop the threads of the envs."""
        self._pool.close()


class RunnerSource:
    """Any runner that resets envs in the same step; groups are collected in the order in which they are ready."""

    def __init__(self, runner: Runner, spec: EnvSpec) -> None:
        self.spec = spec
        self.rows = runner.num_envs
        self.runner = runner
        self.notes: tuple[str, ...] = ()
        self._observed: tuple[Any, dict[str, Any]] | None = None
        self._collector: RunnerCollector | None = None

    def health(self) -> tuple[WorkerHealth, ...]:
        """Return nothing: only process workers have health."""
        return ()

    def take_faults(self) -> list[Fault]:
        """Return nothing: only process workers report single faults."""
        return []

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that all envs began with."""
        return self.runner.options

    @property
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term."""
        return self.runner.reward_weights

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Accept everything: an env looks at the options of `reset` itself."""

    def configure(self, options: Mapping[str, Any]) -> None:
        """Change options of all envs, each at its next reset."""
        self.runner.configure(options)

    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        """Change the weights of these reward terms, from the next step on."""
        self.runner.set_reward_weights(weights)

    def set_policies(self, table: Sequence[Sequence[int]]) -> None:
        """Set which policy plays each seat, from each env's next reset on."""
        self.runner.set_policies(table)

    def seed(self, seed: int, attempt: int) -> None:
        """Restart every random stream."""
        self.runner._seed(seed, attempt)

    def reset(self, seed: int, attempt: int) -> None:
        """Start a new episode in every env."""
        self.runner._seed(seed, attempt)
        self._observed = self.runner.reset()
        self._collector = None

    def advance(self, learner: Learner, work: Iterations) -> dict[str, Any]:
        """Run one iteration."""
        from hotloop.ppo.collector import RunnerCollector

        if self._collector is None:
            assert self._observed is not None
            self._collector = RunnerCollector(learner, self.runner, *self._observed)
        return self._collector.iterate(work.settings, work.heartbeat)

    def episodes(self) -> _core._Episodes:
        """Return the episodes that finished since the last call."""
        return self.runner._take_episodes()

    def faults(self) -> int:
        """Return the number of env faults since the last call."""
        return self.runner.faults().count

    def snapshot(self) -> bytes:
        """Return the state of the envs, as far as they provide it."""
        return self.runner.snapshot()

    def restore(self, state: bytes) -> None:
        """Restore a snapshot."""
        self._observed = self.runner.restore(state)
        self._collector = None

    def close(self) -> None:
        """Stop threads and processes."""
        self.runner.close()


class PythonSource(RunnerSource):
    """Python envs in worker processes, of a runner that exists already or is made here."""

    def __init__(self, config: Config, *, runner: ProcessRunner | None = None, debug: bool = False) -> None:
        from hotloop.config.checks import check_batches

        runner = runner or make_runner(config, config.runner.num_envs, debug=debug)
        super().__init__(runner, runner.env_spec)
        self._env_notes = self.notes = tuple(env_notes(config.env.name, self.spec))
        self._faults: list[Fault] = []
        self._runner = runner
        runner.listen(self._faults.append)
        try:
            check_batches(config, runner.seats)
        except BaseException:
            runner.close()
            raise

    def health(self) -> tuple[WorkerHealth, ...]:
        """Return the health of every worker process."""
        return tuple(self._runner.health())

    def take_faults(self) -> list[Fault]:
        """Return the faults since the last call."""
        # Cleared in place: the runner appends to this list.
        taken = self._faults[:]
        self._faults.clear()
        return taken

    def restore(self, state: bytes) -> None:
        """Restore a snapshot; note how many envs had to start new episodes."""
        super().restore(state)
        if self._runner.restarted_envs:
            self.notes = (
                f"{self._runner.restarted_envs} of {self._runner.env_count} envs do not offer their state: "
                "their next episodes start now, from keyed seeds",
                *self._env_notes,
            )


def make_source(config: Config, *, debug: bool = False) -> Source:
    """Return the envs of a run."""
    from hotloop.envs.registry import is_native

    kind = NativeSource if is_native(config.env.name) else PythonSource
    return kind(config, debug=debug)


def make_runner(config: Config, num_envs: int, *, evaluates: bool = False, debug: bool = False) -> ProcessRunner:
    """Return a runner of Python envs as the config describes it; a `ConfigError` says why it cannot be made.

    Args:
        config: The run's config.
        num_envs: Number of envs.
        evaluates: Whether it is for evaluations, which may have options and wrappers of their own.
        debug: Whether errors have full tracebacks.
    """
    from hotloop.errors import ConfigError, EnvError
    from hotloop.runners.health import Limits
    from hotloop.runners.processes import ProcessRunner

    env, runner, wrap = config.env, config.runner, config.wrap
    if runner.action_repeat != 1:
        raise ConfigError("runner.action_repeat is for native envs: set wrap.frame_skip")
    workers = runner.num_workers
    if runner.envs_per_worker is not None:
        if workers is not None:
            raise ConfigError("runner.num_workers and runner.envs_per_worker say the same: leave one of them out")
        workers = -(-num_envs // runner.envs_per_worker)
    limits = Limits(
        step=runner.step_timeout,
        reset=runner.reset_timeout,
        memory=runner.memory_limit,
        cores=runner.worker_cores,
        restarts=runner.restart_limit,
        numa_node=runner.numa_node,
    )
    wrappers = wrap.in_evaluations if evaluates else wrap.in_use
    try:
        return ProcessRunner(
            env.name,
            num_envs,
            num_workers=workers,
            groups_per_worker=runner.groups_per_worker,
            groups_per_batch=runner.groups_per_batch,
            options=config.evaluation_options if evaluates else env.options,
            autoreset_mode="same_step",
            limits=limits,
            worker_python=runner.worker_python,
            wrap={**wrappers, "scale_actions": wrap.scale_actions},
            metrics=list(dict.fromkeys([SUCCESS, *config.track.infos])),
            for_policy=True,
            debug=debug,
        )
    except (EnvError, OSError) as error:
        raise ConfigError(f"env.name is {env.name!r}: {error}") from None
