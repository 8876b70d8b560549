"""A worker: steps its envs on command, in a process of its own or, for debugging, in the caller's.

Imports nothing of this package but what a foreign interpreter can load: the core and the adapters.
"""

from __future__ import annotations

import contextlib
import errno
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.envs.adapters.rows import chain, write_metrics
from hotloop.errors import EnvOutputError
from hotloop.runners.layout import ENDED, FAULTED, HISTORY, STEP
from hotloop.runners.seeds import episode_seed
from hotloop.runners.worker_group import EnvSlot, WorkerGroup, make_group

if TYPE_CHECKING:
    from hotloop import _core
    from hotloop.envs.adapters.rows import Adapted
    from hotloop.runners.layout import Layout

_IDLE: Final = np.inf
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# Why the native stepper hands an env to Python: an episode must start, or a step or reset returned something unusual.
_DUE, _STEPPED, _BEGUN = range(3)


@dataclass(frozen=True)
class EnvFailure:
    """An exception of one env."""

    env: int
    what: str
    traceback: str


Listener = Callable[[EnvFailure], None]


class Worker:
    """The envs of one worker.

    Args:
        index: Number of the worker.
        layout: Of the shared memory.
        memory: The shared memory.
        make: Makes a fresh env.
        autoreset: `next_step`, `same_step` or `disabled`.
        envs: The worker's envs, in order.
        listener: Called with every failure of an env, which is then replaced; without one, exceptions are raised.
    """

    def __init__(
        self,
        index: int,
        layout: Layout,
        memory: Any,
        make: Callable[[], Adapted],
        autoreset: str,
        envs: list[Adapted],
        listener: Listener | None,
    ) -> None:
        plan = layout.plan
        self._layout = layout
        self._make = make
        self._same_step = autoreset == "same_step"
        self._listener = listener
        self._views = layout.views(memory)
        self._one_seat = plan.seats == 1
        self._independent = layout.spec.independent_rows
        self.groups = list(plan.groups_of(index))
        self._groups: dict[int, WorkerGroup] = {}
        start = plan.envs_of(index).start
        for group in self.groups:
            first, last = plan.groups[group]
            own = envs[first - start : last - start]
            self._groups[group] = make_group(group, index, layout, self._views, own, self._same_step)
        self._slots = {slot.index: slot for group in self._groups.values() for slot in group.slots}
        # By env: options for its next reset only, and for every reset.
        self._options: dict[int, dict[str, Any]] = {}
        self._configured: dict[int, dict[str, Any]] = {}
        # Writing to these takes half the time that writing to an array does.
        self._pulse: Any = memoryview(self._views["pulse"][index])
        self._cursor: Any = memoryview(self._views["cursor"][index : index + 1])  # type: ignore[arg-type]
        self._pulse[0] = self._pulse[1] = _IDLE

    def serve(self, group: int, command: int) -> None:
        """Step or reset a group."""
        env_group = self._groups[group]
        if command == STEP and env_group.stepper is not None:
            self._step_plain(env_group, env_group.stepper)
            return
        if env_group.flagged:
            for flags in env_group.flags:
                flags.fill(False)
            # After a reset the runner may set some of its own, and a seat can be over before its env is.
            env_group.flagged = command != STEP or not self._one_seat or env_group.stepper is not None
            self._views["events"][group] = 0
        if command == STEP:
            self._step(group, env_group)
        else:
            for slot in env_group.slots:
                if self._views["which"][slot.index]:
                    self._begin(slot)
        self._pulse[0] = _IDLE

    def _step_plain(self, env_group: WorkerGroup, stepper: _core.Stepper) -> None:
        slots = env_group.slots
        actions = list(env_group.action[self._views["turn"].item(slots[0].group) % HISTORY])
        if (decode := slots[0].env.decode) is not None:  # type: ignore[attr-defined]  # plain envs have it
            actions = [decode(action) for action in actions]
        stepper.clear()
        at = 0
        while at < len(actions):
            try:
                unusual = stepper.step(actions, at, not (self._options or self._configured))
            except Exception as error:
                at = self._cursor[0] - slots[0].index
                self._replace(slots[at], error)
            else:
                if unusual is None:
                    break
                at, why, result = unusual
                self._finish_plain(slots[at], why, result)
            at += 1
        self._pulse[0] = _IDLE
        if self._layout.metrics and self._views["events"].item(slots[0].group) & ENDED:
            for at, info in stepper.take_infos().items():
                if self._views["finished"].item(slots[at].index):
                    self._measure(slots[at], info)

    def _measure(self, slot: EnvSlot, info: Any) -> None:
        """Report metrics of an episode that ended in the native stepper, which does not look at info."""
        try:
            write_metrics(info, slot.rows, 0)
        except EnvOutputError as error:
            self._replace(slot, error)
            return
        self._views["metrics"][slot.part] = slot.rows.metrics

    def _finish_plain(self, slot: EnvSlot, why: int, result: Any) -> None:
        """Handle the result that the native stepper left to Python."""
        env: Any = slot.env
        try:
            if why == _DUE:
                self._begin(slot)
            elif why == _BEGUN:
                env.begin(result)
                self._check_finite(slot)
                self._begin_counting(slot)
            else:
                self._take_step(slot, over=env.take(result))
        except Exception as error:
            self._replace(slot, error)

    def _take_step(self, slot: EnvSlot, *, over: bool) -> None:
        slot.rows.reward[:] *= self._views["weight"]
        self._check_finite(slot)
        slot.total += slot.rows.reward
        slot.length += 1
        if over:
            self._views["events"][slot.group] |= ENDED
            self._finish(slot)

    def _step(self, group: int, env_group: WorkerGroup) -> None:
        actions = env_group.action[self._views["turn"].item(group) % HISTORY]
        # To one seat as Gymnasium's own vector envs do it, whose spaces check NumPy's numbers faster than plain ones.
        per_env: Any = actions
        if not self._independent:
            per_env = actions.tolist() if actions.ndim == 1 and not self._one_seat else list(actions)
        if self._independent or not self._one_seat:
            seats = self._layout.plan.seats
            per_env = [per_env[first : first + seats] for first in range(0, len(per_env), seats)]
        cursor, pulse, clock = self._cursor, self._pulse, time.monotonic
        env_group.length += env_group.valid
        env_group.reward.fill(0.0)
        ended, faulted = [], False
        for slot, action, over in zip(env_group.slots, per_env, env_group.over.tolist(), strict=True):
            cursor[0] = slot.index
            if over:
                self._begin(slot)
                continue
            pulse[0] = clock()
            try:
                if slot.env.step(action):
                    ended.append(slot)
            except Exception as error:
                faulted = True
                self._replace(slot, error)
        if (weight := self._views["weight"].item(0)) != 1.0:
            env_group.reward *= weight
        env_group.total += env_group.reward
        if not self._all_finite(env_group):
            for slot in env_group.slots:
                try:
                    self._check_finite(slot)
                except EnvOutputError as error:
                    faulted = True
                    self._replace(slot, error)
        if self._independent:
            self._finish_rows(group, env_group)
        for slot in ended:
            if not (faulted and self._views["cut"][slot.part].all()):
                self._finish(slot)
        if ended:
            env_group.flagged = True
            self._views["events"][group] |= ENDED

    @staticmethod
    def _all_finite(env_group: WorkerGroup) -> bool:
        obs = env_group.obs
        return bool(np.isfinite(env_group.reward).all() and (obs.dtype.kind != "f" or np.isfinite(obs).all()))

    @staticmethod
    def _check_finite(slot: EnvSlot) -> None:
        rows = slot.rows
        if not np.isfinite(rows.reward).all():
            bad = rows.reward[~np.isfinite(rows.reward)][0]
            raise EnvOutputError(f"the env's reward is {bad}: expected a finite number")
        if rows.obs.dtype.kind == "f" and not np.isfinite(rows.obs).all():
            raise EnvOutputError("the env's observation has a number that is not finite")

    def _begin(self, slot: EnvSlot) -> None:
        """Start an episode, with the seed that was set for it if any."""
        views, env = self._views, slot.index
        if not self._one_seat:
            slot.rows.valid.fill(True)
        self._cursor[0] = env
        self._pulse[1] = time.monotonic()
        try:
            seed = int(views["seed"][env]) if views["seeded"][env] else None
            slot.env.reset(seed, self._reset_options(env))
            self._check_finite(slot)
        except Exception as error:
            self._pulse[1] = _IDLE
            self._replace(slot, error)
            return
        self._pulse[1] = _IDLE
        self._begin_counting(slot)

    def _begin_counting(self, slot: EnvSlot) -> None:
        views = self._views
        views["seeded"][slot.index] = False
        views["over"][slot.index] = False
        views["number"][slot.index] += 1
        views["policy"][slot.part] = views["next_policy"][slot.part]
        slot.total.fill(0.0)
        slot.length.fill(0)
        if self._one_seat:
            slot.rows.valid[0] = True

    def _finish(self, slot: EnvSlot) -> None:
        """Count the episode, and start the next one if that is due."""
        views, part = self._views, slot.part
        # Episodes of frozen policies are not counted.
        views["finished"][part] = views["policy"][part] == 0
        views["return"][part] = slot.total
        views["length"][part] = slot.length
        views["metrics"][part] = slot.rows.metrics
        if self._same_step:
            views["final_obs"][part] = views["obs"][part]
            views["final_infos"][part] = views["infos"][part]
            if "mask" in views:
                views["final_mask"][part] = views["mask"][part]
            self._begin(slot)
        else:
            views["over"][slot.index] = True
            slot.rows.valid.fill(False)

    def _finish_rows(self, group: int, env_group: WorkerGroup) -> None:
        """Count the episodes of rows that end, and have started the next, independently of each other."""
        views, rows = self._views, self._layout.plan.rows_of(group)
        ended = views["terminated"][rows]
        if not ended.any():
            return
        views["finished"][rows] = ended & (views["policy"][rows] == 0)
        for name, counted in (("return", env_group.total), ("length", env_group.length)):
            views[name][rows][ended] = counted[ended]
            counted[ended] = 0
        env_group.flagged = True
        views["events"][group] |= ENDED

    def _replace(self, slot: EnvSlot, error: Exception) -> None:
        """Report a failure, drop the episode, and put a fresh env in place of the one that cannot be trusted."""
        if self._listener is None or isinstance(error, MemoryError) or getattr(error, "errno", None) in _EXHAUSTED:
            # With workers: a process that has run out of something is of no use to a fresh env, and ends.
            raise error
        views, part, env_group = self._views, slot.part, self._groups[slot.group]
        self._listener(EnvFailure(slot.index, f"{type(error).__name__}: {error}", traceback.format_exc()))
        slot.rows.reward.fill(0.0)
        views["events"][slot.group] |= ENDED | FAULTED
        env_group.flagged = True
        # If this fails, the process ends, and the runner replaces it.
        self._pulse[1] = time.monotonic()
        with contextlib.suppress(Exception):
            slot.env.close()
        slot.env = self._make()
        slot.env.bind(slot.rows, self._layout.infos)
        if env_group.stepper is not None:
            env: Any = slot.env
            env_group.stepper.put(slot.index - env_group.slots[0].index, *env.calls)
        views["seed"][slot.index] = episode_seed(int(views["key"][slot.index]), int(views["number"][slot.index]) + 1)
        slot.env.reset(int(views["seed"][slot.index]), self._reset_options(slot.index))
        self._check_finite(slot)
        self._pulse[1] = _IDLE
        for name in ("terminated", "finished"):
            views[name][part] = False
        views["final_obs"][part] = 0
        views["truncated"][part] = views["cut"][part] = True
        self._begin_counting(slot)

    def set_reset_options(self, options: dict[str, Any], envs: list[int]) -> None:
        """Set options for the next reset of these envs."""
        for env in envs:
            if env in self._slots:
                self._options[env] = {**self._options.get(env, {}), **options}

    def configure(self, configured: dict[int, dict[str, Any]]) -> None:
        """Replace the options that every reset of an env gets, by env."""
        self._configured = configured

    def _reset_options(self, env: int) -> dict[str, Any] | None:
        return {**self._configured.get(env, {}), **self._options.pop(env, {})} or None

    def get_state(self) -> dict[int, tuple[dict[str, Any] | None, Any, Any]]:
        """Return by env: its state as arrays if it offers it, and the running episode's return and length."""
        return {at: (self._env_state(slot), slot.total.copy(), slot.length.copy()) for at, slot in self._slots.items()}

    def _env_state(self, slot: EnvSlot) -> dict[str, Any] | None:
        try:
            with self._timed(slot):
                return slot.env.get_state()
        except Exception as error:
            if self._listener is None:
                raise
            what = f"get_state raised {type(error).__name__}: {error}"
            self._listener(EnvFailure(slot.index, what, traceback.format_exc()))
            return None

    @contextlib.contextmanager
    def _timed(self, slot: EnvSlot) -> Iterator[None]:
        """Apply the time limit of a reset to a call of an env."""
        self._cursor[0] = slot.index
        self._pulse[1] = time.monotonic()
        try:
            yield
        finally:
            self._pulse[1] = _IDLE

    def set_state(self, states: dict[int, tuple[dict[str, Any], Any, Any]], *, show: bool = False) -> None:
        """Set the state of envs; rows keep their observation, or with `show` get the one that `set_state` returns."""
        for at, (state, total, length) in states.items():
            slot = self._slots[at]
            arrays = [array for array in slot.rows if isinstance(array, np.ndarray)]
            kept = [array.copy() for array in arrays]
            with self._timed(slot):
                slot.env.reset(0, None)
                observation = slot.env.set_state(state)
            for array, before in zip(arrays, kept, strict=True):
                array[...] = before
            slot.total[:], slot.length[:] = total, length
            if show:
                self._views["over"][at] = False
                slot.rows.valid.fill(True)
                if observation is not None:
                    slot.env.show_state(observation)

    def show_state(self, states: dict[int, tuple[dict[str, Any], Any, Any]]) -> None:
        """Set the state of envs, from which they play on even if they were over."""
        self.set_state(states, show=True)

    def call_envs(self, what: str, name: str, *arguments: Any) -> list[tuple[Any, str | None]]:
        """Call a method of every env, or get or set an attribute; return results and errors, in order."""
        return [self._call_env(slot, what, name, arguments) for slot in self._slots.values()]

    def _call_env(self, slot: EnvSlot, what: str, name: str, arguments: tuple[Any, ...]) -> tuple[Any, str | None]:
        try:
            with self._timed(slot):
                owner = next((each for each in chain(slot.env.env) if hasattr(each, name)), None)
                if what == "set":
                    setattr(slot.env.env if owner is None else owner, name, arguments[0][slot.index])
                    return None, None
                if owner is None:
                    raise AttributeError(f"neither {type(slot.env.env).__name__} nor what it wraps has {name!r}")
                found = getattr(owner, name)
                value = found(*arguments[0], **arguments[1]) if what == "call" and callable(found) else found
                if self._listener is not None:
                    pickle.dumps(value)
                return value, None
        except Exception as error:
            if self._listener is None:
                raise
            return None, f"{type(error).__name__}: {error}"

    def envs(self) -> list[Adapted]:
        """Return every env, in order."""
        return [slot.env for slot in self._slots.values()]

    def close(self) -> None:
        """Close every env."""
        for slot in self._slots.values():
            slot.env.close()
