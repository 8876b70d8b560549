"""Results of Python envs, read from the memory that workers write: the info of a batch, and finished episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.runners.episodes import EpisodeCounter
from hotloop.runners.infos import InfoMaker
from hotloop.runners.layout import ENDED, FAULTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.runners.worker_pool import WorkerPool


class ResultReader:
    """Reads the results of groups that came back from their workers.

    Args:
        pool: The workers.
        infos: Entries of info to return.
        same_step: Whether finished envs are reset within the step.
    """

    def __init__(self, pool: WorkerPool, infos: Sequence[str], *, same_step: bool) -> None:
        plan, spec = pool.plan, pool.spec
        self._views = pool.views
        self._events = pool.events
        self._seats = plan.seats
        self._masked = spec.masked
        self._wanted = infos
        self._same_step = same_step
        # Whether an env's next episode has been counted by the time the end of its last one is read.
        self._next_started = same_step and not spec.independent_rows
        rows = plan.envs * plan.seats
        self._numbers = np.arange(rows)
        self._rows = [plan.rows_of(group) for group in range(len(plan.groups))]
        self._infos = InfoMaker(rows, [(name, 1) for name in infos], infos)
        self._arrays = ({"action_mask": "mask"} if spec.masked else {}) | (
            {"valid": "valid", "policy": "policy"} if plan.seats > 1 else {}
        )
        self._arrays |= {"infos": "infos"} if infos else {}
        self._metrics = self._views["metrics"]
        self._measures = bool(pool.layout.metrics)
        self.episodes = EpisodeCounter(rows, len(pool.layout.metrics))
        # Single numbers are read faster from these than from arrays.
        columns = ("finished", "number", "length", "return", "turn")
        self._columns: Any = [self._views[name].data for name in columns]

    def count_episodes(self, groups: Sequence[int]) -> None:
        """Count the episodes that ended in these groups' last step."""
        events = self._events.tolist()
        for group in groups:
            if events[group] & ENDED:
                self._count_group(group)

    def _count_group(self, group: int) -> None:
        finished, numbers, lengths, returns, turns = self._columns
        first, last = self._rows[group].start, self._rows[group].stop
        flags = finished[first:last].tobytes()
        at = flags.find(True)
        while at >= 0:
            row = first + at
            number = numbers[row // self._seats] - self._next_started
            measured: Sequence[float] = ()
            if self._measures:
                measured = self._metrics[row].tolist()
                self._metrics[row] = np.nan
            self.episodes.add(turns[group], row, number, lengths[row], returns[row], measured)
            at = flags.find(True, at + 1)

    def info(self, groups: Sequence[int], rows: Any, *, copy: bool) -> dict[str, Any]:
        """Return the info of these groups' rows, as Gymnasium's vector envs give it."""
        events, all_events = 0, self._events.tolist()
        for group in groups:
            events |= all_events[group]
        if not events and not self._arrays:
            return {}
        views = self._views
        info = {key: views[name][rows] for key, name in self._arrays.items()}
        if events & FAULTED:
            info["cut"] = views["cut"][rows]
        if copy:
            info = {name: array.copy() for name, array in info.items()}
        if events & ENDED and self._same_step:
            ended = np.flatnonzero(views["terminated"][rows] | views["truncated"][rows])
            if ended.size:
                masks = views["final_mask"][rows][ended] if self._masked else np.zeros((len(ended), 0), np.int8)
                packed = views["final_infos"][rows][ended]
                info["finals"] = (ended, views["final_obs"][rows][ended], packed, masks)
        if info:
            self._infos.complete(info, len(self._numbers[rows]))
            for i, name in enumerate(self._wanted):
                info[f"_{name}"] = views["info_given"][rows][:, i].copy()
        return info
