"""Order of jobs and their dependencies, as functions of rows and time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from hotloop.errors import JobError

if TYPE_CHECKING:
    from hotloop.orchestrator.job import Condition, Job, State

Node = TypeVar("Node", bound=Hashable)
# Seconds of waiting that raise a job's priority by one.
AGING: Final = 600.0
# Seconds after which half of a group's use is forgotten.
HALF_LIFE: Final = 3600.0
# Core-seconds that a job counts for when it starts, so that one pass fills its slots from several groups.
_ADVANCE: Final = 60.0
# Longest delay of a retry, with jitter. A start time further away than that is due to a clock that was set back.
_LONGEST_DELAY: Final = 64.0 * 1.25


def effective_priority(job: Job, now: float) -> int:
    """Return the priority, which grows by one for every ten minutes in the queue: nothing starves."""
    return job.priority + max(0, int((now - job.queued) / AGING))


def decayed(used: float, at: float, now: float) -> float:
    """Return a group's core-seconds, of which half are forgotten every hour."""
    return used * math.exp2(-max(0.0, now - at) / HALF_LIFE)


def order(jobs: Iterable[Job], used: Mapping[str, float], now: float) -> list[Job]:
    """Return jobs in the order in which they start: priority, least served group, number."""
    charged, remaining, ordered = dict(used), sorted(jobs, key=lambda job: job.number), []
    levels: dict[int, dict[str, list[Job]]] = {}
    for job in remaining:
        levels.setdefault(effective_priority(job, now), {}).setdefault(job.group_name, []).append(job)
    for level in sorted(levels, reverse=True):
        groups = {name: iter(members) for name, members in levels[level].items()}
        heads = {name: next(members) for name, members in groups.items()}
        while heads:
            name = min(heads, key=lambda name: (charged.get(name, 0.0), heads[name].number))
            job = heads[name]
            ordered.append(job)
            charged[name] = charged.get(name, 0.0) + _ADVANCE * job.cores
            following = next(groups[name], None)
            if following is None:
                del heads[name]
            else:
                heads[name] = following
    return ordered


def is_due(job: Job, now: float) -> bool:
    """Return whether a job's start time is reached."""
    is_retry = bool(job.deaths)
    return job.not_before <= now or (is_retry and job.not_before > now + _LONGEST_DELAY)


def unmet(needs: Sequence[tuple[int, Condition]], states: Mapping[int, State]) -> tuple[list[int], str | None]:
    """Return the jobs that are still awaited, and why the needs can never be met (`None` if they can)."""
    awaited = []
    for number, condition in needs:
        state = states.get(number)
        if state is None:
            return [], f"it needs job {number}, which does not exist"
        if state in ("waiting", "queued", "running"):
            awaited.append(number)
        elif state != "completed" and condition == "ok":
            return [], f"it needs job {number}, which {'failed' if state == 'failed' else 'was cancelled'}"
    return awaited, None


def check_cycles(needs: Mapping[Node, Iterable[Node]]) -> None:
    """Refuse jobs that wait for each other."""
    done: set[Node] = set()
    for start in needs:
        path: list[Node] = []
        stack = [(start, iter(needs[start]))] if start not in done else []
        while stack:
            node, rest = stack[-1]
            if len(path) < len(stack):
                path.append(node)
            following = next(rest, None)
            if following is None:
                done.add(node)
                stack.pop()
                path.pop()
            elif following in path:
                cycle = [*path[path.index(following) :], following]
                raise JobError(f"jobs wait for each other: {' -> '.join(map(str, cycle))}; remove one of these 'after'")
            elif following not in done and following in needs:
                stack.append((following, iter(needs[following])))
