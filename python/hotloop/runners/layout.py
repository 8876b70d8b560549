"""The memory that a runner shares with its worker processes, and the commands it sends them.

Both sides build the same layout from the same description, and thus the same views.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hotloop import _core
from hotloop.envs.spec import EnvSpec

STEP: Final = 0
"""Command to a worker: step a group."""
RESET: Final = 1
"""Command to a worker: reset the envs of a group that `which` names."""
CALL: Final = 2
"""Command to a worker: execute the method call that was sent over the connection."""
ENDED: Final = 1
"""Bit of a group's `events`: an episode ended."""
FAULTED: Final = 2
"""Bit of a group's `events`: an env faulted and was reset."""
HISTORY: Final = 8
"""Steps whose actions are kept, so that a fault's report can list the last ones."""
_ALIGNMENT: Final = 64


@dataclass(frozen=True)
class Plan:
    """The division of envs into groups, and of groups among workers."""

    envs: int
    seats: int
    groups: tuple[tuple[int, int], ...]
    """Per group: its first env, and the one after its last."""
    workers: tuple[tuple[int, int], ...]
    """Per worker: its first group, and the one after its last."""

    def groups_of(self, worker: int) -> range:
        """The groups of a worker."""
        return range(*self.workers[worker])

    def envs_of(self, worker: int) -> range:
        """The envs of a worker."""
        first, last = self.workers[worker]
        return range(self.groups[first][0], self.groups[last - 1][1])

    def rows_of(self, group: int) -> slice:
        """The rows of a group."""
        first, last = self.groups[group]
        return slice(first * self.seats, last * self.seats)


class Layout:
    """Names, dtypes, shapes and offsets of all shared arrays."""

    def __init__(self, plan: Plan, spec: EnvSpec, infos: tuple[str, ...], metrics: tuple[str, ...]) -> None:
        self.plan = plan
        self.spec = spec
        self.infos = infos
        self.metrics = metrics
        rows, envs, groups = plan.envs * plan.seats, plan.envs, len(plan.groups)
        observation, action = spec.observation, spec.action
        self._arrays: dict[str, tuple[Any, tuple[int, ...]]] = {
            "signals": (np.uint32, (_core.Signals.words(len(plan.workers), groups),)),
            "obs": (observation.dtype, (rows, *observation.shape)),
            "final_obs": (observation.dtype, (rows, *observation.shape)),
            "action": (action.dtype, (HISTORY, rows, *action.shape)),
            "reward": (np.float32, (rows,)),
            "terminated": (np.bool_, (rows,)),
            "truncated": (np.bool_, (rows,)),
            "cut": (np.bool_, (rows,)),
            "valid": (np.bool_, (rows,)),
            "policy": (np.int32, (rows,)),
            "next_policy": (np.int32, (rows,)),
            "infos": (np.float32, (rows, len(infos))),
            "info_given": (np.bool_, (rows, len(infos))),
            "final_infos": (np.float32, (rows, len(infos))),
            # Episodes that ended in the last command, and the number of each env's episode since it was seeded.
            "length": (np.int64, (rows,)),
            "return": (np.float32, (rows,)),
            "finished": (np.bool_, (rows,)),
            "metrics": (np.float32, (rows, len(metrics))),
            "number": (np.int64, (envs,)),
            "over": (np.bool_, (envs,)),
            # Written by the runner: the number of each group's steps, envs to reset, the reward's weight, seeds.
            "turn": (np.int64, (groups,)),
            "which": (np.bool_, (envs,)),
            "weight": (np.float32, (1,)),
            "key": (np.uint64, (envs,)),
            "seed": (np.uint64, (envs,)),
            "seeded": (np.bool_, (envs,)),
            # Bits of what happened in a group's last command: ENDED, FAULTED.
            "events": (np.int64, (groups,)),
            # For the supervisor: when the running step and reset began, and in which env.
            "pulse": (np.float64, (len(plan.workers), 2)),
            "cursor": (np.int64, (len(plan.workers),)),
        }
        if spec.masked:
            self._arrays["mask"] = (np.int8, (rows, sum(action.choices)))
            self._arrays["final_mask"] = (np.int8, (rows, sum(action.choices)))
        self.size = 0
        self._offsets = {}
        for name, (dtype, shape) in self._arrays.items():
            self._offsets[name] = self.size
            length = int(np.prod(shape)) * np.dtype(dtype).itemsize
            self.size += -(-max(1, length) // _ALIGNMENT) * _ALIGNMENT

    def views(self, memory: Any) -> dict[str, NDArray[Any]]:
        """Return all arrays as views of a block of `size` bytes."""
        return {
            name: np.frombuffer(memory, dtype, int(np.prod(shape)), self._offsets[name]).reshape(shape)
            for name, (dtype, shape) in self._arrays.items()
        }


def partition(envs: int, seats: int, workers: int, groups_per_worker: int) -> Plan:
    """Divide envs evenly among workers and their groups, in order."""
    workers = min(workers, envs)
    bounds = [envs * worker // workers for worker in range(workers + 1)]
    groups: list[tuple[int, int]] = []
    owned = []
    for first, last in pairwise(bounds):
        parts = min(groups_per_worker, last - first)
        first_group = len(groups)
        groups += pairwise(first + (last - first) * part // parts for part in range(parts + 1))
        owned.append((first_group, len(groups)))
    return Plan(envs, seats, tuple(groups), tuple(owned))
