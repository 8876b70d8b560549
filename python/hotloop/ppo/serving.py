"""Collecting from any runner: the native policy serves batches of whichever groups are ready first.

Noise is keyed by iteration, slot and row, and a row's output does not depend on its batch mates, so the order in which
groups arrive never reaches the weights. Native envs are collected from natively instead, with the same result.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.ppo.debug import explained_variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.ppo.learners import Learner
    from hotloop.runners.base import Runner
    from hotloop.runners.batch import Batch


class Server:
    """Fills a learner's rollout from a runner that resets envs in the same step; `obs` and `info` are what it sees."""

    def __init__(self, learner: Learner, runner: Runner, obs: NDArray[Any], info: dict[str, Any]) -> None:
        self._learner = learner
        self._runner = runner
        self._arrays = learner.rollout()
        self._horizon = len(self._arrays["reward"])
        self._rows = [runner.group_rows(group) for group in range(runner.num_groups)]
        self._seconds = {"env": 0.0, "inference": 0.0, "copy": 0.0}
        # What rows see now lies in the last slot, from where each iteration takes it to the first.
        self._look(self._horizon, slice(None), obs, info, slice(None))

    def iterate(self, settings: dict[str, Any]) -> dict[str, Any]:
        """One iteration, with the report of `Learner.iterate`."""
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        start = time.perf_counter()
        self.collect(settings)
        learning = time.perf_counter()
        told = self._learner.update(settings)
        learned = time.perf_counter()
        weight = self._arrays["weight"]
        return {
            **told,
            "iterations": 1,
            "steps": int((weight > 0).sum()),
            "rows": weight.size,
            "explained_variance": explained_variance(self._arrays),
            **{f"seconds_{name}": spent for name, spent in self._seconds.items()},
            "seconds_learn": learned - learning,
            "seconds_total": learned - start,
        }

    def collect(self, settings: dict[str, Any]) -> None:
        """Takes every group through the horizon, and makes the advantages."""
        arrays = self._arrays
        for name in ("obs", "mask", "valid", "policy"):
            if name in arrays:
                arrays[name][0] = arrays[name][self._horizon]
        arrays["cut"][:] = False
        slots = [0] * len(self._rows)
        for group in range(len(self._rows)):
            self._decide(group, 0, settings)
        flying = len(self._rows)
        while flying:
            begun = time.perf_counter()
            # The same part of those in flight to the end, so that the last ones do not wait for each other.
            batch = self._runner.recv(-(-self._runner.groups_per_batch * flying // len(self._rows)))
            arrived = time.perf_counter()
            self._seconds["env"] += arrived - begun
            first = 0
            for group in batch.groups:
                rows = self._rows[group]
                part = slice(first, first + rows.stop - rows.start)
                first = part.stop
                self._keep(batch, part, slots[group], rows)
                slots[group] += 1
            self._seconds["copy"] += time.perf_counter() - arrived
            for group in batch.groups:
                if slots[group] < self._horizon:
                    self._decide(group, slots[group], settings)
                else:
                    flying -= 1
        begun = time.perf_counter()
        arrays["value"][self._horizon] = self._learner.value_of(
            arrays["obs"][self._horizon], range(len(arrays["obs"][self._horizon]))
        )
        self._learner.advantages(settings)
        self._seconds["inference"] += time.perf_counter() - begun

    def _decide(self, group: int, slot: int, settings: dict[str, Any]) -> None:
        begun = time.perf_counter()
        rows = self._rows[group]
        actions = self._learner.act_slot(slot, (rows.start, rows.stop), settings["iteration"])
        self._seconds["inference"] += time.perf_counter() - begun
        self._runner.send(actions, group)

    def _keep(self, batch: Batch, part: slice, slot: int, rows: slice) -> None:
        """Writes what a group's step brought to its slot, and what it sees now to the next."""
        arrays = self._arrays
        arrays["reward"][slot, rows] = batch.reward[part]
        arrays["terminated"][slot, rows] = batch.terminated[part]
        arrays["truncated"][slot, rows] = batch.truncated[part]
        if "cut" in batch.info:
            arrays["cut"][slot, rows] = batch.info["cut"][part]
        self._look(slot + 1, rows, batch.obs, batch.info, part)
        ended = np.flatnonzero(batch.truncated[part])
        if ended.size:
            final = np.stack(list(batch.info["final_obs"][part][ended]))
            arrays["bootstrap"][slot, rows.start + ended] = self._learner.value_of(final, rows.start + ended)
        self._learner.end_episodes(slot, (rows.start, rows.stop))

    def _look(self, slot: int, rows: slice, obs: NDArray[Any], info: dict[str, Any], part: slice) -> None:
        arrays = self._arrays
        arrays["obs"][slot, rows] = obs[part]
        for name, key in (("mask", "action_mask"), ("valid", "valid"), ("policy", "policy")):
            if name in arrays and key in info:
                arrays[name][slot, rows] = info[key][part]
