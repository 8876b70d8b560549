"""Samples of resource usage: the process of a run, its workers, the machine and its GPUs."""

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
    """A sampler of resources; CPU usage is that since the previous sample."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._workers: dict[int, psutil.Process] = {}
        self._process.cpu_percent()
        psutil.cpu_percent()
        self._of_workers()
        self._gpu_program = shutil.which("nvidia-smi")

    def sample(self) -> dict[str, dict[str, Any]]:
        """By consumer: `cpu` in cores, `memory` in bytes, and further facts."""
        memory = psutil.virtual_memory()
        cores = os.cpu_count() or 1
        sample: dict[str, dict[str, Any]] = {
            "process": _of(self._process),
            "machine": {
                "cpu": psutil.cpu_percent() / 100 * cores,
                "memory": memory.total - memory.available,
                "cores": cores,
                "memory_total": memory.total,
            },
        }
        sample |= self._of_workers()
        return sample | self.gpus()

    def _of_workers(self) -> dict[str, dict[str, Any]]:
        """Usage of the child processes, which are the workers."""
        found = {child.pid: child for child in self._process.children()}
        # Objects are kept: CPU usage is counted between two samples of a process, so the first has none.
        new = found.keys() - self._workers.keys()
        self._workers = {pid: self._workers.get(pid, child) for pid, child in found.items()}
        sample = {}
        for index, (pid, worker) in enumerate(sorted(self._workers.items())):
            try:
                usage = _of(worker)
                sample[f"worker {index}"] = {**usage, "cpu": None if pid in new else usage["cpu"], "process": pid}
            except psutil.Error:
                continue  # it has just ended
        return sample

    def gpus(self) -> dict[str, dict[str, Any]]:
        """Load and memory of each GPU; empty where there is none."""
        if self._gpu_program is None:
            return {}
        command = [self._gpu_program, f"--query-gpu={_GPU_QUERY}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        except (OSError, subprocess.SubprocessError):
            self._gpu_program = None  # a driver that does not answer now will not later
            return {}
        sample = {}
        for row in csv.reader(done.stdout.splitlines(), skipinitialspace=True):
            index, name, load, used, total = row
            sample[f"gpu {index}"] = {
                "load": _number(load, 0.01),
                "memory": _number(used, _MEGA),
                "memory_total": _number(total, _MEGA),
                "name": name,
            }
        return sample


def _of(process: psutil.Process) -> dict[str, Any]:
    return {"cpu": process.cpu_percent() / 100, "memory": process.memory_info().rss}


def _number(text: str, scale: float) -> float | None:
    """A number that the driver reports; some GPUs report `[N/A]`."""
    try:
        return float(text) * scale
    except ValueError:
        return None
