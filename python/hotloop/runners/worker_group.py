"""The envs of one group as its worker holds them: each with its rows of the shared memory and its running episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop import _core
from hotloop.envs.adapters.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hotloop.envs.adapters.rows import Adapted
    from hotloop.runners.layout import Layout

_STEPPER_ARRAYS: Final = (
    *("obs", "final_obs", "reward", "terminated", "truncated", "cut", "finished", "return", "length", "valid", "over"),
    *("seeded", "number", "policy", "next_policy"),
)


@dataclass
class EnvSlot:
    """An env with its rows and its running episode."""

    index: int
    env: Adapted
    rows: Rows
    part: slice
    """Its rows among all rows of the runner."""
    group: int
    total: NDArray[np.float64]
    """Return of each seat's episode so far: a part of the group's array, as is `length`."""
    length: NDArray[np.int64]


@dataclass
class WorkerGroup:
    """The envs of one group, and its parts of the shared arrays."""

    slots: list[EnvSlot]
    obs: NDArray[Any]
    reward: NDArray[np.float32]
    valid: NDArray[np.bool_]
    action: NDArray[Any]
    flags: list[NDArray[np.bool_]]
    """Arrays that are false unless an episode ends."""
    over: NDArray[np.bool_]
    total: NDArray[np.float64]
    length: NDArray[np.int64]
    flagged: bool = True
    """Whether the last command may have left a flag set."""
    stepper: _core.Stepper | None = None
    """Steps the envs in native code, if all of them are plain."""


def make_group(
    group: int, worker: int, layout: Layout, views: Mapping[str, NDArray[Any]], envs: list[Adapted], same_step: bool
) -> WorkerGroup:
    """Bind the envs of a group, in order, to their rows of the shared memory."""
    plan, rows = layout.plan, layout.plan.rows_of(group)
    first, last = plan.groups[group]
    made = WorkerGroup(
        slots=[],
        obs=views["obs"][rows],
        reward=views["reward"][rows],
        valid=views["valid"][rows],
        action=views["action"][:, rows],
        flags=[views[name][rows] for name in ("terminated", "truncated", "cut", "finished")],
        over=views["over"][first:last],
        total=np.zeros(rows.stop - rows.start),
        length=np.zeros(rows.stop - rows.start, np.int64),
    )
    for index, env in zip(range(first, last), envs, strict=True):
        own = slice((index - first) * plan.seats, (index + 1 - first) * plan.seats)
        part = slice(index * plan.seats, (index + 1) * plan.seats)
        rows_of_env = _rows(views, part, layout.metrics)
        slot = EnvSlot(index, env, rows_of_env, part, group, made.total[own], made.length[own])
        env.bind(slot.rows, layout.infos)
        made.slots.append(slot)
    calls: list[Any] = [getattr(slot.env, "calls", None) for slot in made.slots]
    if plan.seats == 1 and not layout.infos and None not in calls:
        made.stepper = _make_stepper(made, group, worker, views, same_step, keeps_infos=bool(layout.metrics))
        for at, (step, reset) in enumerate(calls):
            made.stepper.put(at, step, reset)
    return made


def _rows(views: Mapping[str, NDArray[Any]], part: slice, metrics: tuple[str, ...]) -> Rows:
    return Rows(
        obs=views["obs"][part],
        reward=views["reward"][part],
        terminated=views["terminated"][part],
        truncated=views["truncated"][part],
        valid=views["valid"][part],
        mask=views["mask"][part] if "mask" in views else None,
        infos=views["infos"][part],
        info_given=views["info_given"][part],
        metric_names=metrics,
        # Not shared: the next episode may begin before the runner reads those of the last one.
        metrics=np.full((part.stop - part.start, len(metrics)), np.nan, np.float32),
    )


def _make_stepper(
    made: WorkerGroup, group: int, worker: int, views: Mapping[str, NDArray[Any]], same_step: bool, keeps_infos: bool
) -> _core.Stepper:
    first = made.slots[0].index
    envs = slice(first, first + len(made.slots))
    arrays = {name: views[name][envs] for name in _STEPPER_ARRAYS}
    arrays |= {"brought": views["events"][group : group + 1], "cursor": views["cursor"][worker : worker + 1]}
    arrays |= {"total": made.total, "played": made.length}
    arrays |= {"weight": views["weight"], "pulse": views["pulse"][worker]}
    return _core.Stepper(arrays, len(made.slots), first, same_step, keeps_infos)
