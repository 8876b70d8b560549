"""The memory that a runner shares with its worker processes, laid out once: both sides make the same views of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hotloop import _core
from hotloop.envs.spec import EnvSpec

# Steps whose actions are kept, so that a fault can tell what was played before it.
HISTORY: Final = 8
_ALIGNMENT: Final = 64


@dataclass(frozen=True)
class Plan:
    """How envs are cut into groups, and groups given to workers."""

    envs: int
    seats: int
    groups: tuple[tuple[int, int], ...]
    """First env and the one after the last, by group."""
    workers: tuple[tuple[int, int], ...]
    """First group and the one after the last, by worker."""

    def envs_of(self, worker: int) -> range:
        """The envs of a worker."""
        first, last = self.workers[worker]
        return range(self.groups[first][0], self.groups[last - 1][1])

    def rows_of(self, group: int) -> slice:
        """The rows of a group."""
        first, last = self.groups[group]
        return slice(first * self.seats, last * self.seats)


class Layout:
    """Names, types and shapes of all shared arrays for some envs."""

    def __init__(self, plan: Plan, spec: EnvSpec, infos: tuple[str, ...]) -> None:
        self.plan = plan
        self.spec = spec
        self.infos = infos
        rows, envs, groups = plan.envs * plan.seats, plan.envs, len(plan.groups)
        observation, action = spec.observation, spec.action
        seen = (rows, *observation.shape)
        self._arrays: dict[str, tuple[Any, tuple[int, ...]]] = {
            "signals": (np.uint32, (_core.Signals.words(len(plan.workers), groups),)),
            "obs": (observation.dtype, seen),
            "final_obs": (observation.dtype, seen),
            "action": (action.dtype, (HISTORY, rows, *action.shape)),
            "reward": (np.float32, (rows,)),
            "terminated": (np.bool_, (rows,)),
            "truncated": (np.bool_, (rows,)),
            "cut": (np.bool_, (rows,)),
            "valid": (np.bool_, (rows,)),
            "policy": (np.int32, (rows,)),
            "next_policy": (np.int32, (rows,)),
            "infos": (np.float32, (rows, len(infos))),
            "told": (np.bool_, (rows, len(infos))),
            "final_infos": (np.float32, (rows, len(infos))),
            # What ended, if anything did: by row, counted from the seeding.
            "length": (np.int64, (rows,)),
            "return": (np.float32, (rows,)),
            "finished": (np.bool_, (rows,)),
            "number": (np.int64, (envs,)),
            "over": (np.bool_, (envs,)),
            # What the runner asks for besides steps.
            "turn": (np.int64, (groups,)),
            "which": (np.bool_, (envs,)),
            "weight": (np.float32, (1,)),
            "key": (np.uint64, (envs,)),
            "seed": (np.uint64, (envs,)),
            "seeded": (np.bool_, (envs,)),
            # What a group's step brought: bit 0 something ended, bit 1 something faulted.
            "brought": (np.int64, (groups,)),
            # For the supervisor: when a step or a reset began, and in which env.
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
        """All arrays, over a block of `size` bytes."""
        return {
            name: np.frombuffer(memory, dtype, int(np.prod(shape)), self._offsets[name]).reshape(shape)
            for name, (dtype, shape) in self._arrays.items()
        }


def cut(envs: int, seats: int, workers: int, groups_per_worker: int) -> Plan:
    """Envs shared out evenly, in order."""
    workers = min(workers, envs)
    bounds = [envs * worker // workers for worker in range(workers + 1)]
    groups: list[tuple[int, int]] = []
    owners = []
    for first, last in pairwise(bounds):
        parts = min(groups_per_worker, last - first)
        begun = len(groups)
        edges = [first + (last - first) * part // parts for part in range(parts + 1)]
        groups += pairwise(edges)
        owners.append((begun, len(groups)))
    return Plan(envs, seats, tuple(groups), tuple(owners))
