"""`hotloop.submit`: queue a training run from Python, and wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from hotloop.errors import JobError
from hotloop.orchestrator.job import DEFAULT_GROUP, DEFAULT_RETRIES, Job, Request, State
from hotloop.orchestrator.queue import Queue
from hotloop.orchestrator.requests import train_request
from hotloop.training.runs import home

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.envs.compiled import CompiledEnv

# Seconds between looks at a job that is waited for.
_POLL: Final = 0.05


class JobHandle:
    """A job in the queue of a store."""

    def __init__(self, store: str | Path | None, number: int) -> None:
        self._store = store
        self.number = number

    def job(self) -> Job:
        """Return the job as it is now."""
        with Queue(self._store, home()) as queue:
            return queue.job(self.number)

    @property
    def state(self) -> State:
        """`waiting`, `queued`, `running`, `completed`, `failed` or `cancelled`."""
        return self.job().state

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait until the job has ended, and return its result.

        Raises:
            JobError: It failed or was cancelled; the message says why.
            TimeoutError: It has not ended within `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with Queue(self._store, home()) as queue:
            while True:
                job = queue.job(self.number)
                if job.state == "completed":
                    return job.result or {}
                if job.is_over:
                    raise JobError(f"job {self.number} {_ENDS[job.state]}: {job.why}")
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"job {self.number} is {job.state} after {timeout:g} s")
                time.sleep(_POLL)

    def cancel(self) -> None:
        """Cancel the job; a running one ends with a checkpoint."""
        with Queue(self._store, home()) as queue:
            queue.cancel(self.number)

    def __repr__(self) -> str:
        return f"JobHandle({self.number}: {self.state})"


_ENDS: Final = {"failed": "failed", "cancelled": "was cancelled"}


def submit(
    env: str | Callable[..., Any] | CompiledEnv,
    *,
    steps: int | None = None,
    episodes: int | None = None,
    minutes: float | None = None,
    until: float | Literal["none"] | None = None,
    seed: int | None = None,
    config: Config | Mapping[str, object] | Sequence[str] | str | Path | None = None,
    preset: str | None = None,
    init_from: str | Path | None = None,
    name: str | None = None,
    store: str | Path | None = None,
    trust: bool = False,
    priority: int | None = None,
    group: str = DEFAULT_GROUP,
    after: Sequence[JobHandle | int] = (),
    not_before: float = 0.0,
    cores: int = 1,
    memory: int | None = None,
    gpus: int = 0,
    retries: int = DEFAULT_RETRIES,
    key: str | None = None,
    fresh: bool = False,
) -> JobHandle:
    """Queue a training run; `hotloop jobs work` runs it. An equal run that is queued, runs or is completed is reused.

    Args:
        env: As for `hotloop.train`, like all arguments up to `trust`.
        steps: End after this many steps.
        episodes: End after this many finished episodes.
        minutes: End after this many minutes; such a run is not exact, and never reused.
        until: End when this mean return is reached and confirmed; `"none"` removes that limit.
        seed: Decides everything random.
        config: Changes to the env's packaged defaults.
        preset: The name of a packaged preset.
        init_from: Run or checkpoint whose weights are the initial ones.
        name: The run's name; made up of env and job by default.
        store: The store that has the queue.
        trust: Whether code that `init_from` names is trusted although it was not made here.
        priority: Higher ones start first; `orchestrator.rl_task_priority` by default.
        group: Groups share the machine fairly.
        after: Jobs that must be completed before.
        not_before: Earliest start, in seconds since 1970.
        cores: Cores that it needs; it gets more while they are idle.
        memory: Bytes that it needs; as much as such runs needed before, by default.
        gpus: GPUs that it needs.
        retries: How often it is tried again after it died.
        key: A name of one's own for the work: submissions with equal keys are one job.
        fresh: Whether to run it even if an equal run is there.
    """
    from hotloop.config.orchestrator import OrchestratorConfig
    from hotloop.envs.loader import name_of
    from hotloop.training.api import resolve

    limits: dict[str, Any] = {"steps": steps, "episodes": episodes, "minutes": minutes, "until": until, "seed": seed}
    limits = {name: value for name, value in limits.items() if value is not None}
    if until == "none":
        limits["until"] = None
    request = train_request(
        resolve(env if isinstance(env, str) else name_of(env), limits, config, preset),
        home=home(),
        init_from=init_from,
        name=name,
        trust=trust,
        key=key,
        priority=OrchestratorConfig().rl_task_priority if priority is None else priority,
        group=group,
        after=[(each.number if isinstance(each, JobHandle) else each, "ok") for each in after],
        not_before=not_before,
        cores=cores,
        memory=memory,
        gpus=gpus,
        retries=retries,
    )
    with Queue(store, home()) as queue:
        (job,) = submit_requests(queue, [request], fresh=fresh)
    return JobHandle(store, job.number)


def submit_requests(queue: Queue, requests: Sequence[Request], *, fresh: bool = False) -> list[Job]:
    """Queue jobs that this user asked for: what they need must exist, and the code they name is trusted here."""
    from dataclasses import replace

    from hotloop.orchestrator.capacity import check_capacity
    from hotloop.orchestrator.finished_runs import find_equal_run
    from hotloop.training.trust import remember

    check_capacity(queue, requests)
    if not fresh:
        known = queue.answered([request.key for request in requests])
        requests = [
            request if request.key in known else replace(request, answer=find_equal_run(queue, request))
            for request in requests
        ]
    for request in requests:
        remember(queue.home / "jobs" / request.key, request.code)
    return queue.submit_many(requests, fresh=fresh)
