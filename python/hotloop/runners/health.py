"""How the workers of a runner are, what limits they have, and what is told of those that were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hotloop.runners.reports import Fault

Listener = Callable[[Fault], None]


@dataclass(frozen=True)
class Limits:
    """What a worker may take; `None` stands for no limit."""

    step: float | None = 60.0
    """Seconds of one env's step."""
    reset: float | None = 120.0
    """Seconds of one env's reset."""
    start: float | None = 600.0
    """Seconds until the envs are made."""
    memory: int | None = None
    """Megabytes in memory."""
    cores: int | None = None
    """Cores that a worker may use."""
    restarts: int | None = 100
    """Faults of one worker within an hour."""
    numa_node: int | None = None
    """The node whose cores workers use."""


@dataclass(frozen=True)
class WorkerHealth:
    """How one worker is."""

    worker: int
    pid: int | None
    state: Literal["alive", "slow", "starting", "lost"]
    """`slow`: its current step has used more than half of its time limit."""
    restarts: int
    """How often its process was replaced."""
    faults: int
    """Faults of its envs, replaced processes included."""
    memory: int
    """Bytes in memory."""
    last_fault: Fault | None


def in_words(workers: Sequence[WorkerHealth]) -> str:
    """How the workers of a runner are, in a line: how many in which state, and what happened last."""
    states = Counter(worker.state for worker in workers)
    said = ", ".join(f"{count} {state}" for state, count in states.items())
    faults, restarts = (sum(getattr(worker, name) for worker in workers) for name in ("faults", "restarts"))
    if not faults:
        return said
    # A worker knows its own last fault; of several, the one with the most is named.
    worst = max((worker for worker in workers if worker.last_fault), key=lambda worker: worker.faults)
    assert worst.last_fault is not None
    why = f"{worst.last_fault.kind}: {worst.last_fault.what}"
    return f"{said}; {faults} faults, {restarts} restarts; worker {worst.worker} {worst.faults}, last {why}"
