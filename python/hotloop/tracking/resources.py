"""What a run takes of the machine: its process, its workers, and GPUs where there are any."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from typing import Any, Final

import psutil

_GPU_QUERY: Final = "index,name,utilization.gpu,memory.used,memory.total"
_MEGA: Final = 2**20


class Sampler:
    """Takes samples; loads are those since the sample before."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._workers: dict[int, psutil.Process] = {}
        self._process.cpu_percent()
        psutil.cpu_percent()
        self._of_workers()
        self._gpu_program = shutil.which("nvidia-smi")

    def sample(self) -> dict[str, dict[str, Any]]:
        """By whom: `cpu` in cores, `memory` in bytes, and what else is known."""
        whole = psutil.virtual_memory()
        cores = os.cpu_count() or 1
        told: dict[str, dict[str, Any]] = {
            "process": _of(self._process),
            "machine": {
                "cpu": psutil.cpu_percent() / 100 * cores,
                "memory": whole.total - whole.available,
                "cores": cores,
                "memory_total": whole.total,
            },
        }
        told |= self._of_workers()
        return told | self._of_gpus()

    def _of_workers(self) -> dict[str, dict[str, Any]]:
        """The processes that this one has started, which is what workers are."""
        found = {child.pid: child for child in self._process.children()}
        # Objects are kept: a load is counted from one look at a process to the next, so at the first there is none.
        new = found.keys() - self._workers.keys()
        self._workers = {pid: self._workers.get(pid, child) for pid, child in found.items()}
        told = {}
        for index, (pid, worker) in enumerate(sorted(self._workers.items())):
            try:
                seen = _of(worker)
                told[f"worker {index}"] = {**seen, "cpu": None if pid in new else seen["cpu"], "process": pid}
            except psutil.Error:
                continue  # it has just ended
        return told

    def _of_gpus(self) -> dict[str, dict[str, Any]]:
        if self._gpu_program is None:
            return {}
        command = [self._gpu_program, f"--query-gpu={_GPU_QUERY}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        except (OSError, subprocess.SubprocessError):
            self._gpu_program = None  # a driver that does not answer now will not later
            return {}
        told = {}
        for row in csv.reader(done.stdout.splitlines(), skipinitialspace=True):
            index, name, load, used, total = row
            told[f"gpu {index}"] = {
                "load": _number(load, 0.01),
                "memory": _number(used, _MEGA),
                "memory_total": _number(total, _MEGA),
                "name": name,
            }
        return told


def _of(process: psutil.Process) -> dict[str, Any]:
    return {"cpu": process.cpu_percent() / 100, "memory": process.memory_info().rss}


def _number(text: str, scale: float) -> float | None:
    """What a GPU says; some say `[N/A]`."""
    try:
        return float(text) * scale
    except ValueError:
        return None
