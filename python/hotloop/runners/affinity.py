"""CPU affinity of worker processes: which cores each of them may run on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.runners.health import Limits


def worker_cores(workers: int, limits: Limits) -> list[list[int]]:
    """Return the cores of each worker, dealt out in turn; empty lists if the limits name neither cores nor a node.

    Raises:
        ValueError: This machine does not have the NUMA node, or this process may not use its cores.
    """
    if limits.cores is None and limits.numa_node is None:
        return [[] for _ in range(workers)]
    usable = sorted(os.sched_getaffinity(0))
    if limits.numa_node is not None:
        node = _node_cores(limits.numa_node)
        usable = [core for core in usable if core in node]
        if not usable:
            raise ValueError(f"numa_node is {limits.numa_node}: this process may use none of its cores {sorted(node)}")
    share = min(limits.cores or len(usable), len(usable))
    return [sorted({usable[(worker * share + i) % len(usable)] for i in range(share)}) for worker in range(workers)]


def _node_cores(node: int) -> set[int]:
    try:
        ranges = Path(f"/sys/devices/system/node/node{node}/cpulist").read_text().strip()
    except OSError:
        raise ValueError(f"numa_node is {node}: this machine has no such node") from None
    cores: set[int] = set()
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        cores |= set(range(int(first), int(last or first) + 1))
    return cores
