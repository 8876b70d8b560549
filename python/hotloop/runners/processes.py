"""The runner of Python envs: many of them in one `gymnasium.vector.VectorEnv`, stepped by worker processes."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from hotloop import _core
from hotloop.envs.spaces import action_space, observation_space
from hotloop.runners import arguments, process_state
from hotloop.runners.actions import ActionTaker
from hotloop.runners.base import OneAtATime, Runner
from hotloop.runners.batch import Batch
from hotloop.runners.episodes import EpisodeBook
from hotloop.runners.health import Limits, Listener, WorkerHealth
from hotloop.runners.infos import InfoMaker
from hotloop.runners.reports import FaultReport
from hotloop.runners.worker import ENDED, FAULTED, RESET, keyed_seed
from hotloop.runners.worker_pool import WorkerPool

if TYPE_CHECKING:
    from hotloop.envs.adapters.rows import Adapted
    from hotloop.runners.base import Out, Seen, Step

_OUTCOME = ("obs", "reward", "terminated", "truncated")


class ProcessRunner(Runner):
    """Python envs stepped by worker processes. Made by `hotloop.make_vec`, which says what the arguments mean.

    It has the interface of the runner of native envs. A worker that raises, dies, hangs or takes too much memory is
    replaced; its envs are reset, their rows come back truncated and marked in `info["cut"]`, and `faults` tells why.
    """

    def __init__(
        self,
        env: str | Callable[..., Any],
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
    ) -> None:
        mode = arguments.autoreset(autoreset_mode)
        wanted = arguments.names("infos", infos)
        arguments.within("num_envs", num_envs, 1, 2**20)
        workers = _core.usable_cores() if num_workers is None else arguments.within("num_workers", num_workers, 0, 4096)
        arguments.within("groups_per_worker", groups_per_worker, 1, 2**20)
        self.name = env if isinstance(env, str) else getattr(env, "__qualname__", repr(env))
        python = None if worker_python is None else os.fspath(worker_python)
        if python is not None and shutil.which(python) is None:
            raise FileNotFoundError(f"worker_python is {python}: there is no such program")
        paths = [str(Path.cwd()), *(sys.path if python is None else [])]
        self._pool = WorkerPool(
            _source(env, dict(options or {})),
            num_envs,
            num_workers=workers,
            groups_per_worker=groups_per_worker,
            infos=tuple(wanted),
            autoreset=arguments.AUTORESET[mode],
            limits=limits or Limits(),
            python=python,
            paths=paths,
        )
        self.env_spec = replace(self._pool.spec, infos=tuple((name, 1) for name in wanted))
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
        self.single_action_space = action_space(self.env_spec.action)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.masked = self.env_spec.masked
        self.reward_terms = ("reward",)
        self.metrics: tuple[str, ...] = ()
        self._same_step = mode == AutoresetMode.SAME_STEP
        self._disabled = mode == AutoresetMode.DISABLED
        # Whether an env's next episode is counted when the end of its last is.
        self._has_begun = self._same_step and not self.env_spec.independent_rows
        self._infos = InfoMaker(self.num_envs, self.env_spec.infos, wanted)
        self._told = (["mask"] if self.masked else []) + (["valid", "policy"] if self.seats > 1 else [])
        self._told += ["infos"] if wanted else []
        self._book = EpisodeBook(self.num_envs)
        self._rows = [plan.rows_of(group) for group in range(self.num_groups)]
        self._take = ActionTaker(self.env_spec.action, self._views, self._rows)
        self._numbers = np.arange(self.num_envs)
        # A group's part of each array stays where it is.
        self._parts = [tuple(self._views[name][rows] for name in _OUTCOME) for rows in self._rows]
        # Single numbers are read faster from these than from arrays.
        ends = ("finished", "number", "length", "return", "turn")
        self._ends: Any = [self._views[name].data for name in ends]
        self._started = False
        self._in_use = OneAtATime()
        self._seed_now: int | None = None
        self.started_anew = 0
        """How many envs the last `restore` could not bring back, because they do not offer their state."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> Seen:
        """Starts a new episode in every env, or in some; gives observation and info.

        Args:
            seed: A number gives every env a key of its own, by its index; a sequence gives each env its own seed.
                `None` lets envs go on with the randomness they have.
            options: `reset_mask`, a bool for each env, limits the reset to some. Anything else goes to the envs' own
                `reset`.
        """
        self._must_be_idle("reset")
        changes = dict(options or {})
        mask = changes.pop("reset_mask", None)
        which = np.ones(self.env_count, np.bool_) if mask is None else arguments.reset_mask(mask, self.env_count)
        seeds = arguments.seeds(seed, self.env_count)
        if changes:
            for worker in range(max(1, self.num_workers)):
                self._pool.talk(worker, "set_reset_options", changes, np.flatnonzero(which).tolist())
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
            self._pool.well()
            self._views["which"][:] = which
            self._pool.send_all(RESET)
            self._collect_all()
            self._started = True
            return self._see()

    def _seed(self, seed: int, attempt: int = 0, which: NDArray[np.bool_] | None = None) -> None:
        """Gives every env a key, which the seeds of its episodes are made of."""
        for env in range(self.env_count):
            if which is None or which[env]:
                key = _key(seed, attempt, self.first_env + env)
                self._views["key"][env] = key
                self._views["number"][env] = -1
                self._views["seed"][env], self._views["seeded"][env] = keyed_seed(key, 0), True
        self._seed_now = seed if which is None or which.all() else -1

    def step(self, actions: ArrayLike, out: Out | None = None) -> Step:
        """Steps every env; gives observation, reward, terminated, truncated and info.

        Args:
            actions: One per row. A bad one raises, naming row and value, and no env moves.
            out: Arrays for observation, reward, terminated and truncated to be written to, and returned.
        """
        if out is not None:
            self._check_out(out)
        with self._in_use:
            self._begin_step(actions)
            return self._end_step(out)

    def _check_out(self, out: Out) -> None:
        for name, array in zip(_OUTCOME, out, strict=True):
            like = self._views[name]
            if array.shape != like.shape or array.dtype != like.dtype:
                raise ValueError(
                    f"out: {name} has shape {list(array.shape)} and dtype {array.dtype}: expected {list(like.shape)} "
                    f"and {like.dtype}"
                )

    def step_async(self, actions: ArrayLike) -> None:
        """Sends every env on its way, with an action for each row."""
        with self._in_use:
            self._begin_step(actions)

    def step_wait(self) -> Step:
        """Waits for what `step_async` began."""
        if len(self._pool.flying) != self.num_groups:
            raise RuntimeError("step_wait needs the actions of step_async")
        with self._in_use:
            return self._end_step(None)

    def _begin_step(self, actions: ArrayLike) -> None:
        self._must_be_idle("step")
        self._must_have_started()
        self._take(actions)
        self._pool.send_all()

    def _end_step(self, out: Out | None) -> Step:
        self._collect_all()
        info = self._info(range(self.num_groups), slice(None), copy=True)
        if out is None:
            obs, reward, terminated, truncated = (self._views[name].copy() for name in _OUTCOME)
            return obs, reward, terminated, truncated, info
        for name, array in zip(_OUTCOME, out, strict=True):
            array[...] = self._views[name]
        return *out, info

    def _collect_all(self) -> None:
        self._count(self._pool.receive(self.num_groups))

    def _count(self, groups: Sequence[int]) -> None:
        """Counts the episodes that ended in these groups' steps."""
        brought = self._pool.brought.tolist()
        for group in groups:
            if brought[group] & ENDED:
                self._log(group)

    def _log(self, group: int) -> None:
        finished, numbers, lengths, returns, turns = self._ends
        first, last = self._rows[group].start, self._rows[group].stop
        flags = finished[first:last].tobytes()
        at = flags.find(True)
        while at >= 0:
            row = first + at
            number = numbers[row // self.seats] - self._has_begun
            self._book.log(turns[group], row, number, lengths[row], returns[row])
            at = flags.find(True, at + 1)

    def _see(self) -> Seen:
        return self._views["obs"].copy(), self._info((), slice(None), copy=True)

    def _info(self, groups: Sequence[int] | range, rows: Any, *, copy: bool) -> dict[str, Any]:
        brought, found = 0, self._pool.brought.tolist()
        for group in groups:
            brought |= found[group]
        if not brought and not self._told:
            return {}
        views = self._views
        info = {{"mask": "action_mask"}.get(name, name): views[name][rows] for name in self._told}
        if brought & FAULTED:
            info["cut"] = views["cut"][rows]
        if copy:
            info = {name: array.copy() for name, array in info.items()}
        if brought & ENDED and self._same_step:
            ended = np.flatnonzero(views["terminated"][rows] | views["truncated"][rows])
            if ended.size:
                masks = views["final_mask"][rows][ended] if self.masked else np.zeros((len(ended), 0), np.int8)
                packed = views["final_infos"][rows][ended]
                info["finals"] = (ended, views["final_obs"][rows][ended], packed, masks)
        if info:
            count = len(self._numbers[rows])
            self._infos.complete(info, count)
            if "infos" in self._told:
                for i, (name, _) in enumerate(self.env_spec.infos):
                    info[f"_{name}"] = views["told"][rows][:, i].copy()
        return info

    def group_rows(self, group: int) -> slice:
        """The rows of a group."""
        return self._rows[arguments.within("group", group, 0, self.num_groups - 1)]

    def send(self, actions: ArrayLike, group: int) -> None:
        """Sends one group on its way, with an action for each of its rows; `recv` hands it back."""
        with self._in_use:
            self._must_have_started()
            arguments.within("group", group, 0, self.num_groups - 1)
            if group in self._pool.flying:
                raise RuntimeError(f"group {group} is in flight: receive it before sending it again")
            self._take(actions, group)
            self._pool.send(group)

    def recv(self, count: int | None = None) -> Batch:
        """Waits for the `count` (else `groups_per_batch`) groups that are ready first, or for all if fewer are sent."""
        wanted = self._wanted(count)
        if not self._pool.flying:
            raise RuntimeError("no group is in flight: send one first")
        with self._in_use:
            groups = self._pool.receive(wanted)
            self._count(groups)
        rows: Any = self._rows[groups[0]]
        if len(groups) > 1:
            rows = np.concatenate([self._numbers[self._rows[group]] for group in groups])
        info = self._info(groups, rows, copy=False)
        if len(groups) > 1:
            obs, reward, terminated, truncated = (self._views[name][rows] for name in _OUTCOME)
        else:
            obs, reward, terminated, truncated = self._parts[groups[0]]
        return Batch(obs, reward, terminated, truncated, info, tuple(groups), self._numbers[rows])

    def configure(self, options: Mapping[str, Any], envs: ArrayLike | None = None) -> None:
        """Hand options to the envs' own `reset`, from each env's next reset on: all envs, or those named by index."""
        self._must_be_idle("configure")
        which = list(range(self.env_count)) if envs is None else arguments.indices("envs", envs, self.env_count)
        before = self._pool.configured
        self._pool.configure({**before, **{env: {**before.get(env, {}), **options} for env in which}})

    def set_policies(self, table: ArrayLike) -> None:
        """Says which policy plays each seat (`table[env, seat]`), from each env's next reset on."""
        self._views["next_policy"][:] = arguments.policies(table, self.env_count, self.seats)

    @property
    def reward_weights(self) -> dict[str, float]:
        """What the envs' reward, the one term there is, is multiplied with."""
        return {"reward": self._views["weight"].item(0)}

    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        """Sets the weight, from the next step on."""
        self._must_be_idle("set_reward_weights")
        for name, weight in weights.items():
            arguments.one_of("reward term", name, self.reward_weights)
            if not math.isfinite(weight):
                raise ValueError(f"the weight of {name} is {weight}: expected a finite number")
            self._views["weight"][0] = weight

    def get_state(self) -> dict[str, NDArray[Any]]:
        """What the envs' own `get_state` gives, an entry per env; `elapsed_steps` counts the steps of the episode."""
        self._must_be_idle("get_state")
        return process_state.fields(self._pool)

    def set_state(self, fields: Mapping[str, ArrayLike], envs: ArrayLike | None = None) -> Seen:
        """Sets fields through the envs' own `set_state`, of all envs or of those named by index.

        Rows see what `set_state` returns, if it returns an observation; otherwise what they saw, until the next step.
        """
        self._must_be_idle("set_state")
        which = list(range(self.env_count)) if envs is None else arguments.indices("envs", envs, self.env_count)
        process_state.put_fields(self._pool, fields, which)
        return self._see()

    def snapshot(self) -> bytes:
        """What is known of every env: its whole state where it offers that as arrays, else which episode it plays.

        An env offers its state with `get_state()`, which gives a dict of arrays, and `set_state(dict)`.
        """
        if not self._pool.broken:
            self._must_be_idle("snapshot")
        return process_state.pack(self._pool, self.name)

    def restore(self, state: bytes) -> Seen:
        """Goes back to a snapshot; envs that do not offer their state start their next episode, from a keyed seed."""
        self._must_be_idle("restore")
        self._pool.well()
        anew = process_state.unpack(self._pool, self.name, state)
        self.started_anew = int(anew.sum())
        if self.started_anew:
            self._views["which"][:] = anew
            self._pool.send_all(RESET)
            self._pool.receive(self.num_groups)
        self._started = True
        self._seed_now = -1
        return self._see()

    def _told_episodes(self) -> _core._Episodes:
        """The episodes that finished since the last call, as the trainer counts them."""
        return self._book.take()

    def faults(self) -> FaultReport:
        """What went wrong since the last call; each env was reset, and its episode dropped."""
        found = FaultReport(self._pool.fault_count, tuple(self._pool.faults))
        self._pool.fault_count, self._pool.faults = 0, []
        return found

    def health(self) -> list[WorkerHealth]:
        """How every worker is."""
        return self._pool.health()

    def listen(self, listener: Listener) -> None:
        """Calls this with every fault, when the runner notices it; what it raises comes out of `recv` or `step`."""
        self._pool.listeners.append(listener)

    def envs_here(self) -> list[Adapted]:
        """The envs themselves, in order, if `num_workers=0` has them in this process."""
        return self._pool.envs_here()

    def _must_be_idle(self, what: str) -> None:
        if self._pool.flying:
            raise RuntimeError(f"{what} while groups are in flight: receive them first")

    def _must_have_started(self) -> None:
        if not self._started:
            raise RuntimeError("a step before the first reset: call reset first")
        if self._disabled and self._views["over"].any():
            env = int(np.flatnonzero(self._views["over"])[0])
            raise RuntimeError(
                f"env {env} is over and autoreset is disabled: reset it, or those that ended with "
                'options={"reset_mask": mask}'
            )

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the workers; called by `close`, which may come at any time and more than once."""
        self._pool.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a runner owns processes and cannot be copied or pickled: make another one")

    def __repr__(self) -> str:
        return f"ProcessRunner({self.name!r}, num_envs={self.env_count}, num_workers={self.num_workers})"


def _source(env: str | Callable[..., Any], options: dict[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    if isinstance(env, str):
        return "name", env, options
    if not callable(env):
        raise TypeError(f"env is {env!r}: expected a name or something to call for an env")
    import cloudpickle  # type: ignore[import-untyped]

    try:
        return "call", cloudpickle.dumps(env), options
    except Exception as error:
        raise TypeError(f"env is {env!r}, which cannot be sent to another process: {error}") from error


def _key(seed: int, attempt: int, env: int) -> int:
    told = f"{seed}/{attempt}/env/{env}".encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")
