"""A worker: steps its envs when asked to, in a process of its own or, for debugging, in the caller's.

Imports nothing of this package but what a foreign interpreter can load: the core and the adapters.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop import _core
from hotloop.envs.adapters.rows import Rows
from hotloop.errors import EnvOutputError
from hotloop.runners.layout import HISTORY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.envs.adapters.rows import Adapted
    from hotloop.runners.layout import Layout

STEP: Final = 0
RESET: Final = 1
TALK: Final = 2
"""The rest is said over the socket."""
ENDED: Final = 1
"""Of what a group's step brought: an episode ended."""
FAULTED: Final = 2
_IDLE: Final = np.inf
# Why a stepper hands an env back: an episode must begin here, or what a step or a reset gave is not plain.
_DUE, _STEPPED, _BEGUN = range(3)
_OF_ROWS: Final = (
    *("obs", "final_obs", "reward", "terminated", "truncated", "cut", "finished", "return", "length", "valid", "over"),
    *("seeded", "number", "policy", "next_policy"),
)


@dataclass(frozen=True)
class Trouble:
    """What went wrong in one env."""

    env: int
    what: str
    traceback: str


Listener = Callable[[Trouble], None]
"""Who is told of trouble."""


@dataclass
class Place:
    """An env with its rows and its running episode."""

    index: int
    env: Adapted
    rows: Rows
    part: slice
    """Its rows among all."""
    group: int
    total: NDArray[np.float64]
    """What each seat has earned in the episode; part of its group's array, as is the next."""
    length: NDArray[np.int64]


@dataclass
class WorkerGroup:
    """The envs of one group, and its parts of the shared arrays."""

    places: list[Place]
    obs: NDArray[Any]
    reward: NDArray[np.float32]
    valid: NDArray[np.bool_]
    action: NDArray[Any]
    flags: list[NDArray[np.bool_]]
    """What is false unless something ends."""
    over: NDArray[np.bool_]
    total: NDArray[np.float64]
    length: NDArray[np.int64]
    flagged: bool = True
    """Whether a flag may be set from before."""
    stepper: _core.Stepper | None = None
    """What steps its envs if all of them are plain."""


class Worker:
    """The envs of one worker.

    Args:
        index: Which worker it is.
        layout: Of the shared memory.
        memory: The shared memory.
        make: Gives a fresh env.
        autoreset: `next_step`, `same_step` or `disabled`.
        envs: Envs that were made already, in order.
        tell: Who hears of trouble; without anybody, exceptions come through.
    """

    def __init__(
        self,
        index: int,
        layout: Layout,
        memory: Any,
        make: Callable[[], Adapted],
        autoreset: str,
        envs: list[Adapted],
        tell: Listener | None,
    ) -> None:
        plan = layout.plan
        self._index = index
        self._layout = layout
        self._make = make
        self._same_step = autoreset == "same_step"
        self._tell = tell
        self._views = layout.views(memory)
        self._alone = plan.seats == 1
        self._apart = layout.spec.independent_rows
        self.groups = list(range(*plan.workers[index]))
        self._groups = {group: self._make_group(group) for group in self.groups}
        self._places: dict[int, Place] = {}
        for group, env_group in self._groups.items():
            first, last = plan.groups[group]
            for at in range(first, last):
                env = envs[at - plan.envs_of(index).start]
                own = slice((at - first) * plan.seats, (at + 1 - first) * plan.seats)
                part = slice(at * plan.seats, (at + 1) * plan.seats)
                place = Place(at, env, self._rows(part), part, group, env_group.total[own], env_group.length[own])
                env.bind(place.rows, layout.infos)
                env_group.places.append(place)
                self._places[at] = place
            env_group.stepper = self._stepper(group, env_group)
        # By env: options for its next reset only, and for every reset.
        self._options: dict[int, dict[str, Any]] = {}
        self._configured: dict[int, dict[str, Any]] = {}
        # Writing to these takes half the time that writing to an array does.
        self._pulse: Any = memoryview(self._views["pulse"][index])
        self._cursor: Any = memoryview(self._views["cursor"][index : index + 1])  # type: ignore[arg-type]
        self._pulse[0] = self._pulse[1] = _IDLE

    def _make_group(self, group: int) -> WorkerGroup:
        views, rows = self._views, self._layout.plan.rows_of(group)
        return WorkerGroup(
            places=[],
            obs=views["obs"][rows],
            reward=views["reward"][rows],
            valid=views["valid"][rows],
            action=views["action"][:, rows],
            flags=[views[name][rows] for name in ("terminated", "truncated", "cut", "finished")],
            over=views["over"][slice(*self._layout.plan.groups[group])],
            total=np.zeros(rows.stop - rows.start),
            length=np.zeros(rows.stop - rows.start, np.int64),
        )

    def _stepper(self, group: int, env_group: WorkerGroup) -> _core.Stepper | None:
        """For plain envs of which nothing but rewards, ends and observations is wanted."""
        calls: list[Any] = [getattr(place.env, "calls", None) for place in env_group.places]
        if not self._alone or self._layout.infos or None in calls:
            return None
        views, plan = self._views, self._layout.plan
        envs = slice(*plan.groups[group])
        arrays = {name: views[name][envs] for name in _OF_ROWS}
        arrays |= {name: views[name][at : at + 1] for name, at in (("brought", group), ("cursor", self._index))}
        arrays |= {"total": env_group.total, "played": env_group.length}
        arrays |= {"weight": views["weight"], "pulse": views["pulse"][self._index]}
        stepper = _core.Stepper(arrays, len(env_group.places), envs.start, self._same_step)
        for at, (step, reset) in enumerate(calls):
            stepper.put(at, step, reset)
        return stepper

    def _rows(self, part: slice) -> Rows:
        views = self._views
        return Rows(
            obs=views["obs"][part],
            reward=views["reward"][part],
            terminated=views["terminated"][part],
            truncated=views["truncated"][part],
            valid=views["valid"][part],
            mask=views["mask"][part] if "mask" in views else None,
            infos=views["infos"][part],
            told=views["told"][part],
        )

    def serve(self, group: int, command: int) -> None:
        """Steps or resets a group."""
        env_group = self._groups[group]
        if command == STEP and env_group.stepper is not None:
            self._step_plain(group, env_group, env_group.stepper)
            return
        if env_group.flagged:
            for flags in env_group.flags:
                flags.fill(False)
            # After a reset the runner may set some of its own, and a seat can be over before its env is.
            env_group.flagged = command != STEP or not self._alone or env_group.stepper is not None
            self._views["brought"][group] = 0
        if command == STEP:
            self._step(group, env_group)
        else:
            for place in env_group.places:
                if self._views["which"][place.index]:
                    self._begin(place)
        self._pulse[0] = _IDLE

    def _step_plain(self, group: int, env_group: WorkerGroup, stepper: _core.Stepper) -> None:
        actions = list(env_group.action[self._views["turn"].item(group) % HISTORY])
        if (decode := env_group.places[0].env.decode) is not None:  # type: ignore[attr-defined]  # plain envs have it
            actions = [decode(action) for action in actions]
        stepper.clear()
        first, at = env_group.places[0].index, 0
        while at < len(actions):
            try:
                care = stepper.go_on(actions, at, not (self._options or self._configured))
            except Exception as error:
                at = self._cursor[0] - first
                self._fault(env_group.places[at], error)
            else:
                if care is None:
                    return
                at, why, result = care
                self._care(env_group.places[at], why, result)
            at += 1
        self._pulse[0] = _IDLE

    def _care(self, place: Place, why: int, result: Any) -> None:
        """Does what a stepper left to do for one env."""
        try:
            if why == _DUE:
                self._begin(place)
            elif why == _BEGUN:
                self._take_reset(place, result)
            else:
                self._take_step(place, result)
        except Exception as error:
            self._fault(place, error)

    def _take_reset(self, place: Place, result: Any) -> None:
        env: Any = place.env
        env.begin(result)
        self._check_finite(place)
        self._began(place)

    def _take_step(self, place: Place, result: Any) -> None:
        env: Any = place.env
        over = env.take(result)
        place.rows.reward[:] *= self._views["weight"]
        self._check_finite(place)
        place.total += place.rows.reward
        place.length += 1
        if over:
            self._views["brought"][place.group] |= ENDED
            self._finish(place)

    def _step(self, group: int, env_group: WorkerGroup) -> None:
        actions = env_group.action[self._views["turn"].item(group) % HISTORY]
        # To one seat as Gymnasium's own vector envs do it, whose spaces check NumPy's numbers faster than plain ones.
        listed: Any = actions
        if not self._apart:
            listed = actions.tolist() if actions.ndim == 1 and not self._alone else list(actions)
        if self._apart or not self._alone:
            seats = self._layout.plan.seats
            listed = [listed[first : first + seats] for first in range(0, len(listed), seats)]
        cursor, pulse, clock = self._cursor, self._pulse, time.monotonic
        env_group.length += env_group.valid
        env_group.reward.fill(0.0)
        ended, faulted = [], False
        for place, action, over in zip(env_group.places, listed, env_group.over.tolist(), strict=True):
            cursor[0] = place.index
            if over:
                self._begin(place)
                continue
            pulse[0] = clock()
            try:
                if place.env.step(action):
                    ended.append(place)
            except Exception as error:
                faulted = True
                self._fault(place, error)
        if (weight := self._views["weight"].item(0)) != 1.0:
            env_group.reward *= weight
        env_group.total += env_group.reward
        if not self._all_finite(env_group):
            for place in env_group.places:
                try:
                    self._check_finite(place)
                except EnvOutputError as error:
                    faulted = True
                    self._fault(place, error)
        if self._apart:
            self._finish_rows(group, env_group)
        for place in ended:
            if not (faulted and self._views["cut"][place.part].all()):
                self._finish(place)
        if ended:
            env_group.flagged = True
            self._views["brought"][group] |= ENDED

    @staticmethod
    def _all_finite(env_group: WorkerGroup) -> bool:
        obs = env_group.obs
        return bool(np.isfinite(env_group.reward).all() and (obs.dtype.kind != "f" or np.isfinite(obs).all()))

    def _check_finite(self, place: Place) -> None:
        rows = place.rows
        if not np.isfinite(rows.reward).all():
            bad = rows.reward[~np.isfinite(rows.reward)][0]
            raise EnvOutputError(f"the env's reward is {bad}: expected a finite number")
        if rows.obs.dtype.kind == "f" and not np.isfinite(rows.obs).all():
            raise EnvOutputError("the env's observation has a number that is not finite")

    def _begin(self, place: Place) -> None:
        """Starts an episode, with the seed that was set for it if any."""
        views, env = self._views, place.index
        self._pulse[1] = time.monotonic()
        self._cursor[0] = env
        if not self._alone:
            place.rows.valid.fill(True)
        try:
            seed = int(views["seed"][env]) if views["seeded"][env] else None
            place.env.reset(seed, self._reset_options(env))
            self._check_finite(place)
        except Exception as error:
            self._pulse[1] = _IDLE
            self._fault(place, error)
            return
        self._pulse[1] = _IDLE
        self._began(place)

    def _began(self, place: Place) -> None:
        views = self._views
        views["seeded"][place.index] = False
        views["over"][place.index] = False
        views["number"][place.index] += 1
        views["policy"][place.part] = views["next_policy"][place.part]
        place.total.fill(0.0)
        place.length.fill(0)
        if self._alone:
            place.rows.valid[0] = True

    def _finish(self, place: Place) -> None:
        """Counts the episode, and starts the next if that is due."""
        views, part = self._views, place.part
        # What a frozen policy earns is not counted.
        views["finished"][part] = views["policy"][part] == 0
        views["return"][part] = place.total
        views["length"][part] = place.length
        if self._same_step:
            views["final_obs"][part] = views["obs"][part]
            views["final_infos"][part] = views["infos"][part]
            if "mask" in views:
                views["final_mask"][part] = views["mask"][part]
            self._begin(place)
        else:
            views["over"][place.index] = True
            place.rows.valid.fill(False)

    def _finish_rows(self, group: int, env_group: WorkerGroup) -> None:
        """Counts the episodes of rows that end, and have begun the next, apart from each other."""
        views, rows = self._views, self._layout.plan.rows_of(group)
        ended = views["terminated"][rows]
        if not ended.any():
            return
        views["finished"][rows] = ended & (views["policy"][rows] == 0)
        for name, counted in (("return", env_group.total), ("length", env_group.length)):
            views[name][rows][ended] = counted[ended]
            counted[ended] = 0
        env_group.flagged = True
        views["brought"][group] |= ENDED

    def _fault(self, place: Place, error: Exception) -> None:
        """Drops the episode, tells why, and puts a fresh env in place of the one that cannot be trusted."""
        if self._tell is None:
            raise error
        views, part = self._views, place.part
        self._tell(Trouble(place.index, f"{type(error).__name__}: {error}", traceback.format_exc()))
        place.rows.reward.fill(0.0)
        views["brought"][place.group] |= ENDED | FAULTED
        self._groups[place.group].flagged = True
        self._pulse[1] = time.monotonic()
        with contextlib.suppress(Exception):
            place.env.close()
        place.env = self._make()
        place.env.bind(place.rows, self._layout.infos)
        env_group = self._groups[place.group]
        if env_group.stepper is not None:
            env_group.stepper.put(place.index - env_group.places[0].index, *place.env.calls)  # type: ignore[attr-defined]
        views["seed"][place.index] = keyed_seed(int(views["key"][place.index]), int(views["number"][place.index]) + 1)
        place.env.reset(int(views["seed"][place.index]), self._reset_options(place.index))
        self._check_finite(place)
        self._pulse[1] = _IDLE
        for name in ("terminated", "finished"):
            views[name][part] = False
        views["final_obs"][part] = 0
        views["truncated"][part] = views["cut"][part] = True
        self._began(place)

    def set_reset_options(self, options: dict[str, Any], envs: list[int]) -> None:
        """Hand options to the next reset of these envs."""
        for env in envs:
            if env in self._places:
                self._options[env] = {**self._options.get(env, {}), **options}

    def configure(self, configured: dict[int, dict[str, Any]]) -> None:
        """Replace the options that every reset of an env gets, by env."""
        self._configured = configured

    def _reset_options(self, env: int) -> dict[str, Any] | None:
        return {**self._configured.get(env, {}), **self._options.pop(env, {})} or None

    def get_state(self) -> dict[int, tuple[dict[str, Any] | None, Any, Any]]:
        """By env: its state as arrays if it offers it, and the running episode's return and length."""
        return {
            at: (self._offered(place), place.total.copy(), place.length.copy()) for at, place in self._places.items()
        }

    def _offered(self, place: Place) -> dict[str, Any] | None:
        try:
            with self._timed(place):
                return place.env.get_state()
        except Exception as error:
            if self._tell is None:
                raise
            what = f"get_state raised {type(error).__name__}: {error}"
            self._tell(Trouble(place.index, what, traceback.format_exc()))
            return None

    @contextlib.contextmanager
    def _timed(self, place: Place) -> Iterator[None]:
        """Has the time limit of a reset of that env."""
        self._cursor[0] = place.index
        self._pulse[1] = time.monotonic()
        try:
            yield
        finally:
            self._pulse[1] = _IDLE

    def set_state(self, states: dict[int, tuple[dict[str, Any], Any, Any]], *, show: bool = False) -> None:
        """Puts these envs into such states; rows see what they saw, or with `show` what the env then tells."""
        for at, (state, total, length) in states.items():
            place = self._places[at]
            kept = [array.copy() for array in place.rows if array is not None]
            with self._timed(place):
                place.env.reset(0, None)
                seen = place.env.set_state(state)
            for array, before in zip([array for array in place.rows if array is not None], kept, strict=True):
                array[...] = before
            place.total[:], place.length[:] = total, length
            if show:
                self._views["over"][at] = False
                place.rows.valid.fill(True)
                if seen is not None:
                    place.env.show_state(seen)

    def show_state(self, states: dict[int, tuple[dict[str, Any], Any, Any]]) -> None:
        """As `set_state`, and the envs play on from there, also if they were over."""
        self.set_state(states, show=True)

    def envs(self) -> list[Adapted]:
        """Every env, in order."""
        return [place.env for place in self._places.values()]

    def close(self) -> None:
        """Closes every env."""
        for place in self._places.values():
            place.env.close()


def keyed_seed(key: int, episode: int) -> int:
    """The seed of an env's episode, where one starts anew: a function of the env's key and the episode's number."""
    return int.from_bytes(hashlib.blake2b(f"{key}/{episode}".encode(), digest_size=4).digest(), "little") >> 1
