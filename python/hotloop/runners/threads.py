"""The runner of native envs: a `gymnasium.vector.VectorEnv` stepped by native threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from hotloop import _core
from hotloop.envs.reward_weights import reward_weights, set_reward_weights
from hotloop.envs.spaces import action_space, observation_space
from hotloop.envs.spec import EnvSpec
from hotloop.runners import arguments
from hotloop.runners.base import Runner
from hotloop.runners.batch import Batch
from hotloop.runners.infos import InfoMaker
from hotloop.runners.receive_buffers import ReceiveBuffers
from hotloop.runners.reports import Fault, FaultReport
from hotloop.runners.rollout import Rollout

if TYPE_CHECKING:
    from hotloop.runners.base import ObsInfo, Out, Step

_OUTCOME = ("obs", "reward", "terminated", "truncated")


class EnvRenderer(Protocol):
    """Renders the envs of a pool."""

    modes: Sequence[str]
    mode: str | None
    fps: float

    def render(self, pool: _core.Pool, options: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return a frame per env; `None` without a mode."""


class ThreadRunner(Runner):
    """Native envs stepped by native threads. Made by `hotloop.make_vec`, which documents the arguments.

    `num_envs` counts rows, the leading dimension of every batch: `env_count` envs with `seats` rows each. Arrays that
    `reset` and `step` return may be kept: their memory is reused only when nobody holds them. Batches of `recv` and
    arrays of a rollout are views of memory that later steps write to.

    One thread at a time may call it. It cannot be used in a forked child, copied or pickled; `snapshot` transfers its
    state to another runner.
    """

    def __init__(
        self,
        env: str,
        num_envs: int = 1,
        *,
        num_threads: int | None = None,
        num_groups: int | None = None,
        groups_per_batch: int = 1,
        options: Mapping[str, Any] | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        infos: Sequence[str] = (),
        first_env: int = 0,
        pin_threads: bool = False,
        action_repeat: int = 1,
        renderer: EnvRenderer | None = None,
    ) -> None:
        mode = arguments.autoreset(autoreset_mode)
        wanted = arguments.names("infos", infos)
        self._pool = _core.Pool(
            env,
            num_envs,
            num_threads=num_threads,
            num_groups=num_groups,
            options=None if options is None else dict(options),
            first_env=first_env,
            autoreset=arguments.AUTORESET[mode],
            pin_threads=pin_threads,
            infos=wanted,
            action_repeat=action_repeat,
        )
        self._step = self._pool.step
        spec = self.env_spec = EnvSpec.from_json(self._pool.describe())
        self.name = env
        self.env_count = num_envs
        self.seats = spec.seats
        self.num_envs = num_envs * self.seats
        self.num_threads = self._pool.num_threads
        self.num_groups = self._pool.num_groups
        self.groups_per_batch = arguments.within("groups_per_batch", groups_per_batch, 1, self.num_groups)
        self.first_env = first_env
        self.action_repeat = action_repeat
        self.options = self._pool.options()
        self.metadata = {"autoreset_mode": mode, "render_modes": []}
        if renderer is not None:
            self.metadata |= {"render_modes": list(renderer.modes), "render_fps": renderer.fps}
        self.render_mode = None if renderer is None else renderer.mode
        self._renderer = renderer
        self.single_observation_space = observation_space(spec.observation)
        self.single_action_space = action_space(spec.action)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.masked = spec.masked
        self.reward_terms = spec.terms
        self.metrics = spec.metrics

        self._same_step = mode == AutoresetMode.SAME_STEP
        self._infos = InfoMaker(self.num_envs, spec.infos, wanted)
        # The arrays of every `info`; rollouts have `valid` and `policy` for one seat too.
        self._info_arrays = ["action_mask"] if self.masked else []
        self._info_arrays += ["valid", "policy"] if self.seats > 1 else []
        self._info_arrays += ["infos"] if wanted else []
        self._buffers = ReceiveBuffers(self._pool)
        self._seed_now: int | None = None

    def step(self, actions: ArrayLike, out: Out | None = None) -> Step:
        """Step every env; return observation, reward, terminated, truncated and info.

        Args:
            actions: One per row. An invalid one raises an error that names row and value, and no env moves.
            out: Arrays to write observation, reward, terminated and truncated to, and to return.
        """
        result = self._step(actions, out)
        if result[4]:
            self._infos.complete(result[4], self.num_envs)
        return result

    def step_async(self, actions: ArrayLike) -> None:
        """Start a step of every env, with an action for each row."""
        given = np.asarray(actions)
        if given.shape[:1] != (self.num_envs,):
            raise ValueError(f"the actions have shape {list(given.shape)}: expected {self.num_envs} of them")
        for group, rows in enumerate(self._buffers.slices):
            self.send(given[rows], group)

    def step_wait(self) -> Step:
        """Wait for the step that `step_async` started."""
        if self._pool.in_flight != self.num_groups:
            raise RuntimeError("step_wait needs the actions of step_async")
        batch = self._receive(self.num_groups, in_order=True)
        info = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in batch.info.items()}
        return batch.obs.copy(), batch.reward.copy(), batch.terminated.copy(), batch.truncated.copy(), info

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ObsInfo:
        """Start a new episode in every env, or in some; return observation and info.

        Args:
            seed: A number gives every env a stream of its own, by its index; a sequence gives each env its own seed.
                `None` continues the existing streams; the very first reset then takes a seed from the system.
            options: `reset_mask`, a bool for each env, limits the reset to some. Anything else is an option of the env
                and applies from this reset on.
        """
        changes = dict(options or {})
        mask = changes.pop("reset_mask", None)
        which = None if mask is None else arguments.reset_mask(mask, self.env_count)
        seeds = arguments.seeds(seed, self.env_count)
        if changes:
            self._pool.configure(changes, None if which is None else np.flatnonzero(which).tolist())
        self._restart_streams(seeds, None if which is None else which.tolist())
        obs, info = self._pool.reset(None if which is None else which.tolist())
        return self._complete(obs, info)

    def _restart_streams(self, seeds: int | list[int | None] | None, which: list[bool] | None) -> None:
        if self._seed_now is None and not isinstance(seeds, int):
            self._seed(arguments.random_seed())
        if isinstance(seeds, list):
            if which is not None:
                seeds = [seed if named else None for seed, named in zip(seeds, which, strict=True)]
            self._pool.seed(seeds)
            self._seed_now = -1
        elif seeds is not None:
            self._pool.seed(seeds, 0, which)
            self._seed_now = seeds if which is None else -1

    def _seed(self, seed: int, attempt: int = 0) -> None:
        """Restart every stream; `attempt` is part of its key, so that a repeated iteration has other randomness."""
        self._pool.seed(seed, attempt)
        self._seed_now = seed

    def _complete(self, obs: NDArray[Any], info: dict[str, Any]) -> ObsInfo:
        self._infos.complete(info, self.num_envs)
        return obs, info

    def group_rows(self, group: int) -> slice:
        """The rows of a group."""
        return self._buffers.slices[arguments.within("group", group, 0, self.num_groups - 1)]

    def send(self, actions: ArrayLike, group: int) -> None:
        """Start a step of one group, with an action for each of its rows; `recv` returns the result."""
        self._pool.send(actions, group)
        self._buffers.set_target(group, None)

    def recv(self, count: int | None = None) -> Batch:
        """Wait for the `count` groups that are ready first (default: `groups_per_batch`), or for all in flight."""
        return self._receive(self._wanted(count))

    def _receive(self, count: int, *, in_order: bool = False) -> Batch:
        groups, faulted = self._pool.recv(count)
        if in_order:
            groups = sorted(groups)
        names = [*_OUTCOME, *self._info_arrays]
        if faulted:
            names.append("cut")
        (obs, reward, terminated, truncated, *rest), rows = self._buffers.gather(groups, names)
        info: dict[str, Any] = dict(zip(names[4:], rest, strict=True))
        if self._same_step and not self._buffers.in_rollout(groups):
            finals = self._pool.finals(groups)
            if finals is not None:
                info["finals"] = finals
        if info:
            self._infos.complete(info, len(rows))
        return Batch(obs, reward, terminated, truncated, info, tuple(groups), rows)

    def rollout(self, horizon: int) -> Rollout:
        """Return arrays for `horizon` steps of every row, which groups can write to."""
        return Rollout(self, horizon)

    def configure(self, options: Mapping[str, Any], envs: ArrayLike | None = None) -> None:
        """Change env options from each env's next reset on, in all envs or in those named by index."""
        self._pool.configure(dict(options), None if envs is None else arguments.indices("envs", envs, self.env_count))

    def set_policies(self, table: ArrayLike) -> None:
        """Set which policy plays each seat (`table[env, seat]`), from each env's next reset on.

        `info["policy"]` of envs with several seats, and `policy` of a rollout, hold the index per row.
        """
        self._pool.set_policies(arguments.policies(table, self.env_count, self.seats))

    @property
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term; the reward is the weighted sum of the terms."""
        return reward_weights(self._pool, self.reward_terms)

    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weights of the named terms, from the next step on."""
        for name in weights:
            arguments.one_of("reward term", name, self.reward_terms)
        set_reward_weights(self._pool, self.reward_terms, weights)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return every field of the envs' state, an entry per env; `elapsed_steps` counts the episode's steps."""
        return self._pool.get_state()

    def set_state(self, fields: Mapping[str, ArrayLike], envs: ArrayLike | None = None) -> ObsInfo:
        """Set fields of all envs, or of those named by index; return the observation and info of every row.

        The envs continue from there, even if they were over. An impossible state is rejected and changes nothing.
        """
        which = list(range(self.env_count)) if envs is None else arguments.indices("envs", envs, self.env_count)
        return self._complete(*self._pool.set_state(dict(fields), which))

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of every env in `render_mode`; `None` without one."""
        return None if self._renderer is None else self._renderer.render(self._pool, self._pool.options())

    def snapshot(self) -> bytes:
        """Return the whole state of every env: fields, counters, random streams, current and pending options."""
        return self._pool.snapshot()

    def restore(self, state: bytes) -> ObsInfo:
        """Restore a snapshot of this runner or an equal one; return the observation and info of every row.

        Threads and groups may differ. A foreign or damaged snapshot is rejected and changes nothing.
        """
        restored = self._complete(*self._pool.restore(state))
        self._seed_now = -1
        return restored

    def _take_episodes(self) -> _core._Episodes:
        return self._pool.episodes()

    def faults(self) -> FaultReport:
        """Return the faults since the last call: invalid outputs of envs, each of which was cut and reset."""
        count, first = self._pool.faults()
        return FaultReport(count, tuple(Fault(*fault) for fault in first))

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads. Called by `close`, at any time and more than once."""
        self._pool.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a runner owns threads and cannot be copied or pickled: make another one and restore a snapshot"
        )

    def __repr__(self) -> str:
        return f"ThreadRunner({self.name!r}, num_envs={self.env_count}, num_threads={self.num_threads})"
