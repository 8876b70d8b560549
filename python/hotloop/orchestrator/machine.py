"""Signals of the machine: time that processes wait for cores, memory that is left, deaths for lack of memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_CGROUP: Final = Path("/sys/fs/cgroup")
# Bytes that are always left to the rest of the machine, and the fraction of all memory.
_SPARE: Final = 2**30
_SPARE_FRACTION: Final = 0.05
# Percentage of time in which some process waited for memory from which memory is short.
_MEMORY_STALL: Final = 10.0


class CpuTime(NamedTuple):
    """Nanoseconds of threads on a core, and in the queue for one."""

    running: int
    waiting: int


class Memory(NamedTuple):
    """Memory in bytes."""

    total: int
    available: int

    @property
    def spare(self) -> int:
        """Bytes that jobs must leave free."""
        return max(_SPARE, int(self.total * _SPARE_FRACTION))


def cpu_time(pids: Iterable[int]) -> CpuTime:
    """Return the time of all threads of these processes so far."""
    running = waiting = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in (_PROC / str(pid) / "task").iterdir():
                with contextlib.suppress(OSError, ValueError):
                    on, queued, _ = (task / "schedstat").read_text().split()
                    running, waiting = running + int(on), waiting + int(queued)
    return CpuTime(running, waiting)


def resident(pids: Iterable[int]) -> int:
    """Return the bytes that these processes hold in memory."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            _, held, shared, *_ = (_PROC / str(pid) / "statm").read_text().split()
            pages += int(held) - int(shared)
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory() -> Memory:
    """Return the memory of the machine, or of the container if that allows less."""
    facts = {}
    for line in (_PROC / "meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        facts[name] = int(rest.split()[0]) * 1024
    total, available = facts["MemTotal"], facts.get("MemAvailable", facts["MemFree"])
    limit, used = _cgroup_memory()
    if limit is not None and limit < total:
        total, available = limit, min(available, limit - used)
    return Memory(total, max(0, available))


def _cgroup_memory() -> tuple[int | None, int]:
    """Return limit and use of this process's control group (v2 or v1), without what the kernel can take back."""
    own = {}
    with contextlib.suppress(OSError):
        for line in (_PROC / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own[controllers] = path.lstrip("/")
    candidates = (
        (_CGROUP / own.get("", ""), "memory.max", "memory.current", "inactive_file"),
        (_CGROUP, "memory.max", "memory.current", "inactive_file"),
        (
            _CGROUP / "memory" / own.get("memory", ""),
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
        (_CGROUP / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    )
    for folder, most, now, reclaimable in candidates:
        with contextlib.suppress(OSError, ValueError):
            limit, used = int((folder / most).read_text()), int((folder / now).read_text())
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            return limit, used - int(statistics.get(reclaimable, 0))
    return None, 0


def pressure() -> dict[str, float]:
    """Return the percentage of the last ten seconds in which some process waited for `cpu`, `memory` and `io`."""
    found = {}
    for kind in ("cpu", "memory", "io"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            line = (_PROC / "pressure" / kind).read_text().splitlines()[0]
            found[kind] = float(line.split()[1].removeprefix("avg10="))
    return found


def is_memory_short(memory: Memory, stalls: float) -> bool:
    """Return whether running jobs endanger the machine: little is left, or processes wait for memory."""
    return memory.available < memory.spare // 2 or (stalls > _MEMORY_STALL and memory.available < 2 * memory.spare)


def oom_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since the boot."""
    with contextlib.suppress(OSError, ValueError):
        for line in (_PROC / "vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


@cache
def gpu_count() -> int:
    """Return the number of GPUs that jobs may use."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return len([each for each in chosen.split(",") if each.strip() not in ("", "-1")])
    return len(list(_PROC.glob("driver/nvidia/gpus/*")))
