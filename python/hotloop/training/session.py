"""A PPO training session: the learner, its envs and its counters, saved to and restored from checkpoints."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from hotloop import _core
from hotloop.envs.registry import is_native
from hotloop.episodes.best_replays import Top
from hotloop.errors import CheckpointError, ConfigError, EnvError, WorkersFailedError
from hotloop.policies.evaluation import Evaluation
from hotloop.policies.spec import policy_spec
from hotloop.ppo.learners import Learner, build, choose
from hotloop.ppo.schedules import Schedules
from hotloop.training import checkpoint as checkpoints
from hotloop.training.controllers import controllers_from
from hotloop.training.counters import Counters
from hotloop.training.evaluation import Opponents as EvaluationOpponents
from hotloop.training.evaluation import Progress, evaluate, evaluate_on, evaluation_seed
from hotloop.training.evaluation import check_fit as check_env_fit
from hotloop.training.iteration_stats import IterationStats
from hotloop.training.manifest import check_fit, check_ownership, identity, manifest
from hotloop.training.opponents import Opponents
from hotloop.training.session_protocol import Summary
from hotloop.training.sources import Iterations, Source, make_runner, make_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hotloop.config import Config, PolicyConfig
    from hotloop.ppo.collector import Heartbeat
    from hotloop.runners.health import WorkerHealth
    from hotloop.runners.processes import ProcessRunner
    from hotloop.runners.reports import Fault
    from hotloop.training.callbacks import IterationReport
    from hotloop.training.checkpoint import Arrays, Checkpoint
    from hotloop.training.control import Controller, Decision


class Session:
    """A learner with its envs, at the start of a run or at one of its checkpoints.

    Args:
        config: The run's config.
        first: Initial weights and statistics; drawn from the seed if left out.
        opponents: Checkpoints of the frozen policies that `opponents.policies` names.
        attempt: How often the run was rolled back.
        debug: Whether to run iterations in parts and check every array.
    """

    keeps_replays = True
    """Whether evaluations collect their best episodes in `top`."""

    def __init__(
        self,
        config: Config,
        *,
        first: tuple[Arrays, Arrays] | None = None,
        opponents: Sequence[Checkpoint] = (),
        attempt: int = 0,
        debug: bool = False,
    ) -> None:
        self.config = config
        try:
            self.source = self._make_source(debug=debug)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self.spec = self.source.spec
        rows = self.source.rows
        self.steps_per_iteration = rows * config.ppo.horizon
        try:
            threads = 1 if debug else None
            self.learner = build(config, self.spec, rows, attempt=attempt, num_threads=threads)
            if first is not None:
                put_first_weights(self.learner, *first)
            self.opponents = Opponents(config.opponents, opponents, self.spec, self._learner_name)
            if len(self.opponents):
                self.learner.set_opponents(self.opponents.frozen())
                self.source.set_policies(self.opponents.table(range(config.runner.num_envs)))
            self.source.reset(config.train.seed, attempt)
        except ValueError as error:
            self.source.close()
            raise ConfigError(str(error)) from None
        except (EnvError, WorkersFailedError) as error:
            self.source.close()
            raise ConfigError(f"env.name is {config.env.name!r}: {error}") from None
        except BaseException:
            self.source.close()
            raise
        self.settings = Schedules(config, rows)
        self.counters = Counters(attempt=attempt, recent=deque(maxlen=config.train.until_episodes))
        self.top: Top | None = None
        self._evaluation_runner: ProcessRunner | None = None
        self._learners = [self._learner_name]
        self._notes: list[str] = []

    def _make_source(self, *, debug: bool) -> Source:
        return make_source(self.config, debug=debug)

    def _make_evaluation_runner(self, num_envs: int) -> ProcessRunner:
        return make_runner(self.config, num_envs, evaluates=True)

    @property
    def _learner_name(self) -> str:
        return choose(self.config, self.spec).name

    def _policy_json(self) -> dict[str, Any]:
        return policy_spec(self.config.policy, self.spec.observation).to_json()

    def summary(self) -> Summary:
        """Return a summary for people."""
        chosen, config = choose(self.config, self.spec), self.config
        sizes = config.policy.module or _sizes(config.policy)
        weights = self.learner.parameters
        return Summary(
            learner=str(chosen),
            work=f"{config.runner.num_envs} envs x {config.ppo.horizon} steps, policy {sizes} ({weights} weights)",
            parameters=weights,
            num_threads=self.learner.num_threads,
            notes=(*self.learner.notes, *self._notes, *self.source.notes, *self.opponents.notes),
        )

    def set_threads(self, count: int) -> None:
        """Change the number of the learner's threads, if that changes no result: only the native learner's do not."""
        if isinstance(self.learner, _core.PpoLearner):
            self.learner.set_threads(count)

    def workers(self) -> tuple[WorkerHealth, ...]:
        """Return the health of the worker processes; empty if the envs run in this process."""
        return self.source.health()

    def take_faults(self) -> list[Fault]:
        """Return the faults of Python envs since the last call."""
        return self.source.take_faults()

    def next_change(self) -> int | None:
        """Return the next iteration whose settings differ from this one's."""
        return self.settings.next_change(self.counters.iterations)

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next iteration."""
        rate: float = self.settings_now()["learning_rate"]
        return rate

    def promises(self, until: float) -> bool:
        """Return whether the mean return of the last episodes reaches this value."""
        return self.counters.return_recent >= until

    def policy_bytes(self) -> bytes:
        """Return the contents that a checkpoint's `policy.safetensors` would have now."""
        return checkpoints.policy_bytes(self.learner)

    def save_batch(self, path: Path) -> None:
        """Save the last rollout, for debugging."""
        from safetensors.numpy import save_file

        save_file({name: array.copy() for name, array in self.learner.rollout().items()}, path)

    def settings_now(self) -> dict[str, Any]:
        """The settings of the next iteration; each rollback has halved the learning rate."""
        return self._settings_at(self.counters.iterations)

    def _settings_at(self, iteration: int) -> dict[str, Any]:
        conditions, scale = self.counters.control.conditions, 0.5**self.counters.attempt
        settings = self.settings.at(iteration, scale)
        if conditions.learning_rate is not None:
            settings["learning_rate"] = conditions.learning_rate * scale
        if conditions.entropy is not None:
            settings["entropy"] = conditions.entropy
        return settings

    def controllers(self) -> list[Controller]:
        """Return the controllers that the config asks for."""
        return controllers_from(self.config, self.source, self.steps_per_iteration)

    def apply(self, decision: Decision) -> None:
        """Set what a controller decided; a `ValueError` says what the envs do not take."""
        if decision.policies is not None:
            self._check_policies(decision.policies)
            self.source.set_policies(decision.policies)
        if decision.reward:
            self.source.set_reward_weights(decision.reward)
        if decision.env:
            self.source.configure(decision.env)
            if self.counters.iterations == 0:
                # Nothing has been played yet: the first episodes already have these options.
                self.source.reset(self.config.train.seed, self.counters.attempt)

    def _check_policies(self, table: Sequence[Sequence[int]]) -> None:
        most = len(self.opponents)
        for env, row in enumerate(table):
            for seat, policy in enumerate(row):
                if not 0 <= policy <= most:
                    raise ValueError(
                        f"the policy of env {env}, seat {seat} is {policy}: expected 0 (the learner) to {most}"
                    )

    def advance(self, count: int, seconds: float, heartbeat: Heartbeat | None = None) -> None:
        """Run up to `count` iterations, which share their settings; none starts after `seconds`."""
        start = time.perf_counter()
        result = self.source.advance(self.learner, Iterations(self.settings_now(), count, seconds, heartbeat))
        self.counters.add(IterationStats.from_ppo(result, time.perf_counter() - start))

    def gather(self) -> None:
        """Add the episodes and faults that the core has counted since the last call."""
        self.counters.add_episodes(self.source.episodes())
        self.counters.since.faults += self.source.faults()

    def record(self, *, with_statistics: bool) -> IterationReport:
        """Return the record of the iterations since the last one."""
        settings = self._settings_at(max(0, self.counters.iterations - 1))
        found = None
        if with_statistics:
            from hotloop.training.statistics import statistics

            found = statistics(self.learner, settings, self.spec.action)
        return self.counters.take_report(
            self.spec,
            learning_rate=settings["learning_rate"],
            coefficients={"entropy_weight": settings["entropy"]},
            statistics=found,
        )

    def evaluate(self, progress: Progress | None = None) -> Evaluation:
        """Play the run's evaluation episodes under the current conditions; `top` has the best of them."""
        return self._evaluate_native(progress) if is_native(self.config.env.name) else self._evaluate_python(progress)

    def _evaluate_native(self, progress: Progress | None) -> Evaluation:
        train, env, repeat = self.config.train, self.config.env, self.config.runner.action_repeat
        conditions, seed = self.counters.control.conditions, evaluation_seed(train.seed)
        options = {**env.options, **conditions.env, **train.evaluate_env}
        opponents, names = None, None
        if len(self.opponents):
            opponents = EvaluationOpponents(self.opponents.players(), self.opponents.evaluation_table)
            names = self.opponents.names
        weights = conditions.reward
        if self.keeps_replays:
            self.top = Top(env.name, options, seed=seed, action_repeat=repeat, policies=names, reward_weights=weights)
        return evaluate(
            self.learner,
            env.name,
            options,
            episodes=train.evaluate_episodes,
            seed=seed,
            num_threads=1,
            action_repeat=repeat,
            top=self.top,
            reward_weights=weights,
            opponents=opponents,
            progress=progress,
        )

    def _evaluate_python(self, progress: Progress | None) -> Evaluation:
        train, conditions = self.config.train, self.counters.control.conditions
        if self._evaluation_runner is None:
            count = min(self.config.runner.num_envs, train.evaluate_episodes)
            self._evaluation_runner = self._make_evaluation_runner(count)
            check_env_fit(self.spec, self._evaluation_runner.env_spec, "train.evaluate_env")
        runner = self._evaluation_runner
        try:
            runner.configure(conditions.env)
            runner.set_reward_weights(conditions.reward)
            if len(self.opponents):
                runner.set_policies(self.opponents.evaluation_table(range(runner.env_count)))
            return evaluate_on(
                self.learner,
                runner,
                episodes=train.evaluate_episodes,
                seed=evaluation_seed(train.seed),
                opponents=self.opponents.players(),
                progress=progress,
            )
        except BaseException:
            # Its groups may be in flight: the next evaluation starts workers of its own.
            self._close_evaluation()
            raise

    def _close_evaluation(self) -> None:
        if self._evaluation_runner is not None:
            self._evaluation_runner.close()
            self._evaluation_runner = None

    def _wrap(self) -> dict[str, Any]:
        """Return the wrappers between the env and the policy, which whoever plays the policy needs."""
        own = self.spec.own_action is not None
        scaled = own and bool(self.spec.action.low) and self.config.wrap.scale_actions
        return {**self.config.wrap.in_evaluations, **({"scale_actions": True} if scaled else {})}

    def manifest(self, date: str) -> dict[str, Any]:
        """Return the description of the policy that a checkpoint would have now."""
        facts = manifest(
            self.config,
            self.counters,
            self.spec,
            learner=self._learner_name,
            threads=self.learner.num_threads,
            date=date,
        )
        facts |= {
            "policy": self._policy_json(),
            "normalize_observations": self.config.ppo.normalize_observations,
            "action_repeat": self.config.runner.action_repeat,
            **({"wrap": wrap} if (wrap := self._wrap()) else {}),
            "learners": self._learners,
        }
        if len(self.opponents):
            facts["opponents"] = self.opponents.hashes
        if conditions := self.learner.conditions():
            facts[self._learner_name] = conditions
        return facts

    def save(self, folder: Path, date: str) -> Path:
        """Write a checkpoint."""
        self.gather()
        return checkpoints.save(
            folder,
            self.policy_bytes(),
            self.learner.state(),
            self.source.snapshot(),
            self.counters.to_json(),
            self.manifest(date),
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint; after a rollback all random streams restart with new keys."""
        expected = {**identity(self.config), "policy": self._policy_json()}
        if len(self.opponents):
            expected["opponents"] = self.opponents.hashes
        check_ownership(checkpoint, expected)
        attempt = self.counters.attempt
        state, envs, counters = checkpoint.state()
        weights, _ = checkpoint.policy()
        with check_fit(checkpoint):
            self.learner.set_arrays(weights)
            self.learner.set_state(state)
            self.source.restore(envs)
            restored = Counters.from_json(counters, self.config.train.until_episodes)
        self._compare_learners(checkpoint.manifest)
        self.counters = restored
        # Snapshots of process workers do not carry these.
        self.source.set_reward_weights(self.counters.control.conditions.reward)
        if attempt > self.counters.attempt:
            self.counters.attempt = attempt
            self.source.seed(self.config.train.seed, attempt)

    def _compare_learners(self, manifest: dict[str, Any]) -> None:
        """Note everything that may change the bits compared with the session that saved the checkpoint."""
        before, now = manifest["learner"], self._learner_name
        past: list[str] = manifest.get("learners", [before])
        self._learners = past if past[-1] == now else [*past, now]
        self._notes = []
        if before != now:
            self._notes.append(
                f"the checkpoint was made by the {before} learner: the {now} one continues from the same weights, "
                "but the bits will differ from here on"
            )
        elif changed := self.learner.changed_since(manifest.get(now, {})):
            self._notes.append(f"the bits may differ from those of the run so far: {'; '.join(changed)}")

    def close(self) -> None:
        """Stop the threads and processes of the envs."""
        self._close_evaluation()
        self.source.close()


def _sizes(policy: PolicyConfig) -> str:
    """`64x64`, or with memory `64 lstm 128x128`."""
    dense = "x".join(map(str, policy.hidden))
    if policy.memory == "none":
        return dense
    return f"{dense} {policy.memory} {'x'.join([str(policy.memory_size)] * policy.memory_layers)}"


def put_first_weights(learner: Learner, weights: Arrays, statistics: Arrays) -> None:
    """Set another run's weights, and its observation statistics if both runs normalise observations."""
    observed = {name: array for name, array in statistics.items() if name.startswith("observations.")}
    wanted = any(name.startswith("observations.") for name in learner.statistics())
    if bool(observed) != wanted:
        has, lacks = ("has", "does not ask for them") if observed else ("has no", "asks for them")
        raise CheckpointError(
            f"the run to begin from {has} statistics of observations, but this one {lacks}: "
            f"set ppo.normalize_observations={str(bool(observed)).lower()}"
        )
    try:
        learner.set_arrays(weights)
        learner.set_state(observed)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the run to begin from has another policy: {error}") from None
