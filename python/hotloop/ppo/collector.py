"""Collecting from any runner: rows of all groups that are ready act together, in one forward pass.

Action noise is keyed by iteration, slot and row, and a row's output does not depend on the rest of its batch, so the
order in which groups arrive never reaches the weights. Native envs are collected from natively, with the same result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.ppo.debug import explained_variance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hotloop.ppo.learners import Learner
    from hotloop.runners.base import Runner
    from hotloop.runners.batch import Batch

Heartbeat = Callable[[int], object]
"""Called while a rollout is collected, with the steps that it has so far."""

_OBSERVED = (("mask", "action_mask"), ("valid", "valid"), ("policy", "policy"))


class RunnerCollector:
    """Fills a learner's rollout from a runner with autoreset `same_step`, from its current `obs` and `info` on."""

    def __init__(self, learner: Learner, runner: Runner, obs: NDArray[Any], info: dict[str, Any]) -> None:
        self._learner = learner
        self._runner = runner
        self._arrays = learner.rollout()
        self._horizon = len(self._arrays["reward"])
        rows = np.arange(runner.num_envs)
        self._rows = [rows[runner.group_rows(group)] for group in range(runner.num_groups)]
        # Next slot of each row.
        self._slots = np.full(runner.num_envs, self._horizon)
        self._seconds = {"env": 0.0, "inference": 0.0, "copy": 0.0}
        # The next rollout begins with the last slot of this one.
        self._observe(rows, obs, info)

    def iterate(self, settings: dict[str, Any], heartbeat: Heartbeat | None = None) -> dict[str, Any]:
        """Run one iteration; the report is that of `Learner.iterate`."""
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        start = time.perf_counter()
        self.collect(settings, heartbeat)
        collected = time.perf_counter()
        report = self._learner.update(settings)
        learned = time.perf_counter()
        weight = self._arrays["weight"]
        return {
            **report,
            "iterations": 1,
            "steps": int((weight > 0).sum()),
            "rows": weight.size,
            "explained_variance": explained_variance(self._arrays),
            **{f"seconds_{name}": seconds for name, seconds in self._seconds.items()},
            "seconds_learn": learned - collected,
            "seconds_total": learned - start,
        }

    def collect(self, settings: dict[str, Any], heartbeat: Heartbeat | None = None) -> None:
        """Take every group through the horizon and compute advantages."""
        collected = 0
        self._learner.begin_rollout()
        self._slots[:] = 0
        groups = range(len(self._rows))
        self._act(groups, settings)
        in_flight = len(groups)
        while in_flight:
            start = time.perf_counter()
            # A constant fraction of the groups in flight, so that the last ones do not wait for each other.
            batch = self._runner.recv(-(-self._runner.groups_per_batch * in_flight // len(groups)))
            received = time.perf_counter()
            self._seconds["env"] += received - start
            self._store(batch)
            self._seconds["copy"] += time.perf_counter() - received
            collected += len(batch.rows)
            if heartbeat is not None:
                heartbeat(collected)
            ready = [group for group in batch.groups if self._slots[self._rows[group][0]] < self._horizon]
            in_flight -= len(batch.groups) - len(ready)
            if ready:
                self._act(ready, settings)
        start = time.perf_counter()
        self._learner.finish_rollout(settings)
        self._seconds["inference"] += time.perf_counter() - start

    def _act(self, groups: Sequence[int], settings: dict[str, Any]) -> None:
        """Send these groups their next actions."""
        start = time.perf_counter()
        rows = self._rows[groups[0]] if len(groups) == 1 else np.concatenate([self._rows[group] for group in groups])
        actions = self._learner.act_rows(self._slots[rows], rows, settings["iteration"])
        self._seconds["inference"] += time.perf_counter() - start
        first = 0
        for group in groups:
            last = first + len(self._rows[group])
            self._runner.send(actions[first:last], group)
            first = last

    def _store(self, batch: Batch) -> None:
        """Store the outcome of a batch's steps, and end the episodes that are over."""
        arrays, rows, slots = self._arrays, batch.rows, self._slots[batch.rows]
        arrays["reward"][slots, rows] = batch.reward
        arrays["terminated"][slots, rows] = batch.terminated
        arrays["truncated"][slots, rows] = batch.truncated
        if "cut" in batch.info:
            arrays["cut"][slots, rows] = batch.info["cut"]
        self._slots[rows] += 1
        self._observe(rows, batch.obs, batch.info)
        if (batch.terminated | batch.truncated).any():
            truncated = np.flatnonzero(batch.truncated)
            final_obs = np.stack(list(batch.info["final_obs"][truncated])) if truncated.size else None
            self._learner.end_episodes(slots, rows, final_obs)

    def _observe(self, rows: NDArray[np.int64], obs: NDArray[Any], info: dict[str, Any]) -> None:
        """Store observations at the next slot of these rows."""
        slots = self._slots[rows]
        self._arrays["obs"][slots, rows] = obs
        for name, key in _OBSERVED:
            if name in self._arrays and key in info:
                self._arrays[name][slots, rows] = info[key]
