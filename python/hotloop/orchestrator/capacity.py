"""The capacity of the machine that runs the jobs of a store, to refuse jobs that could never start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hotloop import _core
from hotloop.errors import JobError
from hotloop.orchestrator import machine

if TYPE_CHECKING:
    from hotloop.orchestrator.job import Request
    from hotloop.orchestrator.queue import Queue


def check_capacity(queue: Queue, requests: Sequence[Request]) -> None:
    """Refuse jobs that need more cores, memory or GPUs than the orchestrator's machine has (this one if none runs)."""
    with queue.reading() as database:
        process, text = database.execute("SELECT process, facts FROM orchestrator").fetchone() or (0, "{}")
    facts = json.loads(text) if process else {}
    memory = machine.memory()
    have = {
        "cores": facts.get("cores", _core.usable_cores()),
        "memory": facts.get("memory_total", memory.total - memory.spare),
        "gpus": facts.get("gpus", machine.gpu_count()),
    }
    for request in requests:
        for what, most in have.items():
            wanted = getattr(request, what)
            least = 0 if what == "gpus" else 1
            if wanted is not None and wanted < least:
                raise JobError(f"{what} is {wanted}: expected {least} or more")
            if wanted is not None and wanted > most:
                unit = " bytes" if what == "memory" else ""
                raise JobError(f"{what} is {wanted}{unit}: the machine that runs the jobs has {most}{unit} for them")
        if request.retries < 0:
            raise JobError(f"retries is {request.retries}: expected 0 or more")
