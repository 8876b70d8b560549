"""The runner of Python envs: a `gymnasium.vector.VectorEnv` stepped by worker processes."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from hotloop import _core
from hotloop.envs import object_envs
from hotloop.envs.scaling import unit_bounds
from hotloop.envs.space_json import space_to_json
from hotloop.envs.spaces import action_space, observation_space
from hotloop.envs.spec import ContinuousAction, HybridAction
from hotloop.errors import EnvError
from hotloop.runners import arguments, process_state
from hotloop.runners.actions import ActionWriter
from hotloop.runners.base import Runner, ThreadGuard
from hotloop.runners.batch import Batch
from hotloop.runners.health import Limits, Listener, WorkerHealth
from hotloop.runners.layout import RESET
from hotloop.runners.process_results import ResultReader
from hotloop.runners.reports import FaultReport
from hotloop.runners.seeds import env_key, episode_seed
from hotloop.runners.worker_pool import WorkerPool

if TYPE_CHECKING:
    from hotloop.envs.adapters.rows import Adapted
    from hotloop.envs.spec import EnvSpec
    from hotloop.runners.base import ObsInfo, Out, Step
    from hotloop.runners.worker_pool import EnvSource

_OUTCOME = ("obs", "reward", "terminated", "truncated")


class ProcessRunner(Runner):
    """Python envs stepped by worker processes. Made by `hotloop.make_vec`, which documents the arguments.

    It has the interface of the runner of native envs. A worker that raises, dies, hangs or takes too much memory is
    replaced; its envs are reset, their rows come back truncated and marked in `info["cut"]`, and `faults` returns the
    reasons.
    """

    def __init__(
        self,
        env: object,
        num_envs: int = 1,
        *,
        num_workers: int | None = None,
        groups_per_worker: int = 2,
        groups_per_batch: int = 1,
        options: Mapping[str, Any] | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        infos: Sequence[str] = (),
        first_env: int = 0,
        limits: Limits | None = None,
        worker_python: str | os.PathLike[str] | None = None,
        wrap: Mapping[str, Any] | None = None,
        metrics: Sequence[str] = (),
        for_policy: bool = False,
        debug: bool = False,
    ) -> None:
        """Start the workers.

        Beyond the arguments of `make_vec`: `metrics` names entries of an episode's last info that are reported with
        the episode, `for_policy` takes actions as policies decide on them (discrete ones counted from 0), and `debug`
        shows tracebacks in full.
        """
        wrap = dict(wrap or {})
        scaled = bool(wrap.pop("scale_actions", False))
        mode = arguments.autoreset(autoreset_mode)
        wanted = arguments.names("infos", infos)
        arguments.within("num_envs", num_envs, 1, 2**20)
        workers = _core.usable_cores() if num_workers is None else arguments.within("num_workers", num_workers, 0, 4096)
        arguments.within("groups_per_worker", groups_per_worker, 1, 2**20)
        self.name = env if isinstance(env, str) else getattr(env, "__qualname__", type(env).__name__)
        python = None if worker_python is None else os.fspath(worker_python)
        if python is not None and shutil.which(python) is None:
            raise FileNotFoundError(f"worker_python is {python}: there is no such program")
        paths = [str(Path.cwd()), *(sys.path if python is None else [])]
        self._pool = WorkerPool(
            _source(env, dict(options or {}), wrap),
            num_envs,
            num_workers=workers,
            groups_per_worker=groups_per_worker,
            infos=tuple(wanted),
            metrics=tuple(arguments.names("metrics", metrics)),
            debug=debug,
            autoreset=arguments.AUTORESET[mode],
            limits=limits or Limits(),
            python=python,
            paths=paths,
        )
        own = self._pool.spec
        self.env_spec = replace(own, infos=tuple((name, 1) for name in wanted), metrics=tuple(metrics))
        if scaled and isinstance(own.action, ContinuousAction | HybridAction):
            self.env_spec = _with_unit_actions(self.env_spec, own.action)
        start = 0 if for_policy else _first_action(own)
        self._views = self._pool.views
        plan = self._pool.plan
        self.env_count = num_envs
        self.seats = plan.seats
        self.num_envs = num_envs * self.seats
        self.num_workers = len(plan.workers) if workers else 0
        self.num_groups = len(plan.groups)
        self.groups_per_batch = arguments.within("groups_per_batch", groups_per_batch, 1, self.num_groups)
        self.first_env = first_env
        self.options = dict(options or {})
        self.metadata = {"autoreset_mode": mode, "render_modes": []}
        self.single_observation_space = observation_space(self.env_spec.observation)
        self.single_action_space = action_space(self.env_spec.action, start)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.masked = self.env_spec.masked
        self.reward_terms = ("reward",)
        self.metrics = self.env_spec.metrics
        self._disabled = mode == AutoresetMode.DISABLED
        self._results = ResultReader(self._pool, wanted, same_step=mode == AutoresetMode.SAME_STEP)
        self._rows = [plan.rows_of(group) for group in range(self.num_groups)]
        self._write_actions = ActionWriter(own.action, self._views, self._rows, scaled=scaled, start=start)
        self._numbers = np.arange(self.num_envs)
        # A group's part of each array stays where it is.
        self._parts = [tuple(self._views[name][rows] for name in _OUTCOME) for rows in self._rows]
        self._started = False
        self._in_use = ThreadGuard()
        self._seed_now: int | None = None
        self.restarted_envs = 0
        """Number of envs that the last `restore` started in new episodes, because they do not offer their state."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> ObsInfo:
        """Start a new episode in every env, or in some; return observation and info.

        Args:
            seed: A number gives every env a key of its own, by its index; a sequence gives each env its own seed.
                `None` lets envs continue with the random state they have.
            options: `reset_mask`, a bool for each env, limits the reset to some. Anything else is passed to the envs'
                own `reset`.
        """
        self._check_idle("reset")
        changes = dict(options or {})
        mask = changes.pop("reset_mask", None)
        which = np.ones(self.env_count, np.bool_) if mask is None else arguments.reset_mask(mask, self.env_count)
        seeds = arguments.seeds(seed, self.env_count)
        if changes:
            for worker in range(max(1, self.num_workers)):
                self._pool.call(worker, "set_reset_options", changes, np.flatnonzero(which).tolist())
        if seeds is None and self._seed_now is None:
            seeds = arguments.random_seed()
        if isinstance(seeds, int):
            self._seed(seeds, which=which)
        elif seeds is not None:
            if self._seed_now is None:
                self._seed(arguments.random_seed())
            for env, one in enumerate(seeds):
                if one is not None and which[env]:
                    self._views["number"][env] = -1
                    self._views["seed"][env], self._views["seeded"][env] = one, True
            self._seed_now = -1
        with self._in_use:
            self._pool.ensure_ready()
            self._views["which"][:] = which
            self._pool.send_all(RESET)
            self._receive_all()
            self._started = True
            return self._observe()

    def _seed(self, seed: int, attempt: int = 0, which: NDArray[np.bool_] | None = None) -> None:
        """Give every env a key, from which the seeds of its episodes are derived."""
        for env in range(self.env_count):
            if which is None or which[env]:
                key = env_key(seed, attempt, self.first_env + env)
                self._views["key"][env] = key
                self._views["number"][env] = -1
                self._views["seed"][env], self._views["seeded"][env] = episode_seed(key, 0), True
        self._seed_now = seed if which is None or which.all() else -1

    def step(self, actions: ArrayLike, out: Out | None = None) -> Step:
        """Step every env; return observation, reward, terminated, truncated and info.

        Args:
            actions: One per row. An invalid one raises an error that names row and value, and no env moves.
            out: Arrays to write observation, reward, terminated and truncated to, and to return.
        """
        if out is not None:
            self._check_out(out)
        with self._in_use:
            self._send_all(actions)
            return self._finish_step(out)

    def _check_out(self, out: Out) -> None:
        for name, array in zip(_OUTCOME, out, strict=True):
            like = self._views[name]
            if array.shape != like.shape or array.dtype != like.dtype:
                raise ValueError(
                    f"out: {name} has shape {list(array.shape)} and dtype {array.dtype}: expected {list(like.shape)} "
                    f"and {like.dtype}"
                )

    def step_async(self, actions: ArrayLike) -> None:
        """Start a step of every env, with an action for each row."""
        with self._in_use:
            self._send_all(actions)

    def step_wait(self) -> Step:
        """Wait for the step that `step_async` started."""
        if len(self._pool.in_flight) != self.num_groups:
            raise RuntimeError("step_wait needs the actions of step_async")
        with self._in_use:
            return self._finish_step(None)

    def _send_all(self, actions: ArrayLike) -> None:
        self._check_idle("step")
        self._check_started()
        self._write_actions(actions)
        self._pool.send_all()

    def _finish_step(self, out: Out | None) -> Step:
        self._receive_all()
        info = self._results.info(range(self.num_groups), slice(None), copy=True)
        if out is None:
            obs, reward, terminated, truncated = (self._views[name].copy() for name in _OUTCOME)
            return obs, reward, terminated, truncated, info
        for name, array in zip(_OUTCOME, out, strict=True):
            array[...] = self._views[name]
        return *out, info

    def _receive_all(self) -> None:
        self._results.count_episodes(self._pool.receive(self.num_groups))

    def _observe(self) -> ObsInfo:
        return self._views["obs"].copy(), self._results.info((), slice(None), copy=True)

    def group_rows(self, group: int) -> slice:
        """The rows of a group."""
        return self._rows[arguments.within("group", group, 0, self.num_groups - 1)]

    def send(self, actions: ArrayLike, group: int) -> None:
        """Start a step of one group, with an action for each of its rows; `recv` returns the result."""
        with self._in_use:
            self._check_started()
            arguments.within("group", group, 0, self.num_groups - 1)
            if group in self._pool.in_flight:
                raise RuntimeError(f"group {group} is in flight: receive it before sending it again")
            self._write_actions(actions, group)
            self._pool.send(group)

    def recv(self, count: int | None = None) -> Batch:
        """Wait for the `count` groups that are ready first (default: `groups_per_batch`), or for all in flight."""
        wanted = self._wanted(count)
        if not self._pool.in_flight:
            raise RuntimeError("no group is in flight: send one first")
        with self._in_use:
            groups = self._pool.receive(wanted)
            self._results.count_episodes(groups)
        rows: Any = self._rows[groups[0]]
        if len(groups) > 1:
            rows = np.concatenate([self._numbers[self._rows[group]] for group in groups])
        info = self._results.info(groups, rows, copy=False)
        if len(groups) > 1:
            obs, reward, terminated, truncated = (self._views[name][rows] for name in _OUTCOME)
        else:
            obs, reward, terminated, truncated = self._parts[groups[0]]
        return Batch(obs, reward, terminated, truncated, info, tuple(groups), self._numbers[rows])

    def configure(self, options: Mapping[str, Any], envs: ArrayLike | None = None) -> None:
        """Pass options to the envs' own `reset`, from each env's next reset on: all envs, or those named by index."""
        self._check_idle("configure")
        which = list(range(self.env_count)) if envs is None else arguments.indices("envs", envs, self.env_count)
        before = self._pool.configured
        self._pool.configure({**before, **{env: {**before.get(env, {}), **options} for env in which}})

    def set_policies(self, table: ArrayLike) -> None:
        """Set which policy plays each seat (`table[env, seat]`), from each env's next reset on."""
        self._views["next_policy"][:] = arguments.policies(table, self.env_count, self.seats)

    @property
    def reward_weights(self) -> dict[str, float]:
        """The factor of the envs' reward, which is the only reward term."""
        return {"reward": self._views["weight"].item(0)}

    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weight, from the next step on."""
        self._check_idle("set_reward_weights")
        for name, weight in weights.items():
            arguments.one_of("reward term", name, self.reward_weights)
            if not math.isfinite(weight):
                raise ValueError(f"the weight of {name} is {weight}: expected a finite number")
            self._views["weight"][0] = weight

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return what the envs' own `get_state` returns, an entry per env, and `elapsed_steps` of their episodes."""
        self._check_idle("get_state")
        return process_state.fields(self._pool)

    def set_state(self, fields: Mapping[str, ArrayLike], envs: ArrayLike | None = None) -> ObsInfo:
        """Set fields through the envs' own `set_state`, of all envs or of those named by index.

        If `set_state` returns an observation, rows get it; otherwise they keep theirs until the next step.
        """
        self._check_idle("set_state")
        which = list(range(self.env_count)) if envs is None else arguments.indices("envs", envs, self.env_count)
        process_state.put_fields(self._pool, fields, which)
        return self._observe()

    def snapshot(self) -> bytes:
        """Return the whole state of every env that offers it as arrays; of others, the number of their episode.

        An env offers its state with `get_state()`, which returns a dict of arrays, and `set_state(dict)`.
        """
        if not self._pool.faults.broken:
            self._check_idle("snapshot")
        return process_state.pack(self._pool, self.name)

    def restore(self, state: bytes) -> ObsInfo:
        """Restore a snapshot; envs that do not offer their state start their next episode, from a keyed seed."""
        self._check_idle("restore")
        self._pool.ensure_ready()
        restarted = process_state.unpack(self._pool, self.name, state)
        self.restarted_envs = int(restarted.sum())
        if self.restarted_envs:
            self._views["which"][:] = restarted
            self._pool.send_all(RESET)
            self._pool.receive(self.num_groups)
        self._started = True
        self._seed_now = -1
        return self._observe()

    def _take_episodes(self) -> _core._Episodes:
        return self._results.episodes.take()

    def faults(self) -> FaultReport:
        """Return the faults since the last call; each env was reset, and its episode dropped."""
        return self._pool.faults.take()

    def health(self) -> list[WorkerHealth]:
        """Return the health of every worker."""
        return self._pool.health()

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every fault as it is noticed; its exceptions are raised by `recv` or `step`."""
        self._pool.faults.listeners.append(listener)

    def forget_listeners(self) -> None:
        """Call none of the listeners from now on."""
        self._pool.faults.listeners.clear()

    def call(self, name: str, *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
        """Call a method of every env, as Gymnasium's vector envs do; return the results, an entry per env.

        An env that has no such method is asked through its wrappers. Arguments and results are pickled.
        """
        return self._call_envs("call", name, arguments, keywords)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of every env, or of one of its wrappers."""
        return self._call_envs("get", name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: a list or tuple has a value per env, anything else is set in all of them."""
        each = list(values) if isinstance(values, list | tuple) else [values] * self.env_count
        if len(each) != self.env_count:
            raise ValueError(f"{name} has {len(each)} values: expected one for each of {self.env_count} envs")
        self._call_envs("set", name, dict(enumerate(each)))

    def _call_envs(self, what: str, name: str, *arguments: Any) -> tuple[Any, ...]:
        self._check_idle(f"{what} {name!r}")
        with self._in_use:
            found = [
                result
                for worker in range(len(self._pool.plan.workers))
                for result in self._pool.call(worker, "call_envs", what, name, *arguments)
            ]
        for env, (_, error) in enumerate(found):
            if error is not None:
                raise EnvError(f"env {env}: {error}")
        return tuple(value for value, _ in found)

    def local_envs(self) -> list[Adapted]:
        """Return the envs, in order, if they live in this process (`num_workers=0`)."""
        return self._pool.local_envs()

    def _check_idle(self, what: str) -> None:
        if self._pool.in_flight:
            raise RuntimeError(f"{what} while groups are in flight: receive them first")

    def _check_started(self) -> None:
        if not self._started:
            raise RuntimeError("a step before the first reset: call reset first")
        if self._disabled and self._views["over"].any():
            env = int(np.flatnonzero(self._views["over"])[0])
            raise RuntimeError(
                f"env {env} is over and autoreset is disabled: reset it, or those that ended with "
                'options={"reset_mask": mask}'
            )

    def close_extras(self, **kwargs: Any) -> None:
        """End the workers. Called by `close`, at any time and more than once."""
        self._pool.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a runner owns processes and cannot be copied or pickled: make another one")

    def __repr__(self) -> str:
        return f"ProcessRunner({self.name!r}, num_envs={self.env_count}, num_workers={self.num_workers})"


def _with_unit_actions(spec: EnvSpec, own: ContinuousAction | HybridAction) -> EnvSpec:
    """Return the spec of an env whose actions are scaled from [-1, 1]; its own action space is kept with it."""
    unit = unit_bounds(own)
    if unit == own:
        return spec
    text = spec.own_action or json.dumps(space_to_json(action_space(own)))
    return replace(spec, action=unit, own_action=text)


def _first_action(spec: EnvSpec) -> int:
    own = {} if spec.own_action is None else json.loads(spec.own_action)
    return int(own["start"]) if own.get("kind") == "discrete" else 0


def _source(env: object, options: dict[str, Any], wrap: dict[str, Any]) -> EnvSource:
    if isinstance(env, str):
        if not object_envs.is_local(env):
            return "name", env, options, wrap
        env = object_envs.find(env)
    env = object_envs.as_factory(env)
    import cloudpickle  # type: ignore[import-untyped]

    try:
        return "call", cloudpickle.dumps(env), options, wrap
    except Exception as error:
        raise TypeError(f"env is {env!r}, which cannot be sent to another process: {error}") from error
