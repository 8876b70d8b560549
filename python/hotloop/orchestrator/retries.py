"""What happens after an attempt of a job has ended, by its cause."""

from __future__ import annotations

import random
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hotloop.orchestrator import child

if TYPE_CHECKING:
    from hotloop.orchestrator.folder import Progress
    from hotloop.orchestrator.job import Job, State

_DELAYS: Final = (1.0, 4.0, 16.0, 64.0)
_JITTER: Final = 0.25
# Signals by which a process dies of its own code.
_FAULTS: Final = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT}
# Seconds by which the last progress may be older than the death of its process.
_REPORTED_WITHIN: Final = 0.3
DEFAULT_MEMORY: Final = 300 * 2**20


class Death(NamedTuple):
    """The end of an attempt that did not complete."""

    cause: str
    """`refused`, `error`, `signal`, `out of memory`, `no space`, or `lost` if nobody saw it end."""
    why: str
    iteration: int | None = None
    slack: int = 0
    """Iterations by which the true one may be later: a process that dies of a signal cannot report it."""
    own_fault: bool = False
    """Whether its own code ended it: an exact run would end there again."""


class Verdict(NamedTuple):
    """The next state of a job whose attempt died."""

    state: State
    why: str
    delay: float = 0.0
    memory: int | None = None
    """Changed estimate of the memory it needs."""


def death_of(
    outcome: Mapping[str, Any] | None, status: int | None, *, out_of_memory: bool, progress: Progress | None
) -> Death | None:
    """Return how an attempt died by its own account and its exit status; `None` if it completed or was stopped."""
    code = None if outcome is None else int(outcome["code"])
    if code is None and status is not None and status >= 0 and not status & 0x7F:
        code = status >> 8
    why = "" if outcome is None else str(outcome.get("why", ""))
    if code in (child.COMPLETED, child.STOPPED) and outcome is not None:
        return None
    if code == child.REFUSED:
        return Death("refused", why or "its settings were refused: see the log")
    if code == child.NO_SPACE:
        return Death("no space", why or "the disk is full")
    if outcome is not None:
        if outcome.get("cause") == "out of memory":
            return Death("out of memory", why)
        return Death("error", why, outcome.get("iteration"), own_fault=True)
    if out_of_memory:
        return Death("out of memory", "killed by the kernel for lack of memory")
    iteration = None if progress is None else progress.iterations
    slack = 0 if progress is None else int(progress.iterations / max(progress.seconds, 1e-3) * _REPORTED_WITHIN) + 1
    if status is not None and status & 0x7F:
        number = status & 0x7F
        return Death("signal", f"ended by {_signal_name(number)}", iteration, slack, own_fault=number in _FAULTS)
    if code is not None and code != child.COMPLETED:
        return Death("error", f"exit code {code}: see the log", iteration, slack, own_fault=True)
    return Death("lost", "its process is gone")


def judge(job: Job, death: Death, checkpoint: str | None, random_fraction: float | None = None) -> Verdict:
    """Return what follows from a death: another attempt after a pause, or the job's failure."""
    if death.cause == "refused":
        return Verdict("failed", death.why)
    if death.own_fault and job.exact and any(_is_same_place(death, earlier) for earlier in job.deaths):
        kept = f"its last checkpoint is {checkpoint}" if checkpoint else "it has no checkpoint"
        where = f"{'near' if death.slack else 'at'} iteration {death.iteration}"
        return Verdict("failed", f"dies {where} every time ({death.why}); {kept}")
    if len(job.deaths) >= job.retries:
        tries = "once" if job.retries == 0 else f"{len(job.deaths) + 1} times"
        return Verdict("failed", f"died {tries}, the last time: {death.why}")
    jitter = random.uniform(-1, 1) if random_fraction is None else random_fraction
    delay = _DELAYS[min(len(job.deaths), len(_DELAYS) - 1)] * (1 + _JITTER * jitter)
    memory = 2 * (job.memory or job.peak or DEFAULT_MEMORY) if death.cause == "out of memory" else None
    return Verdict("waiting", f"{death.why}; next attempt in {delay:.0f} s", delay, memory)


def _is_same_place(death: Death, earlier: Mapping[str, Any]) -> bool:
    if not earlier["own_fault"] or earlier["iteration"] is None or death.iteration is None:
        return False
    return bool(abs(death.iteration - earlier["iteration"]) <= max(death.slack, earlier["slack"]))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
