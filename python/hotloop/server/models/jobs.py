"""The JSON of the routes of jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hotloop.server.models.base import Number, ResponseModel

State = Literal["waiting", "queued", "running", "completed", "failed", "cancelled"]


class Job(ResponseModel):
    """A job of the queue."""

    number: int
    key: str
    kind: str
    name: str
    exact: bool
    state: State
    why: str
    wish: str
    paused: bool
    priority: int
    group_name: str
    cores: int
    memory: int | None
    gpus: int
    retries: int
    attempts: int
    needs: list[tuple[int, str]]
    not_before: float
    submitted: float
    queued: float
    started: Number
    ended: Number
    folder: str | None
    run: str | None
    result: dict[str, Any] | None
    peak: int | None


class JobEvent(ResponseModel):
    """A change of a job's state, or a decision of the orchestrator (job 0)."""

    number: int
    job: int
    time: float
    before: str
    after: str
    why: str
    facts: dict[str, Any]


class Orchestrator(ResponseModel):
    """The process that runs the jobs, and its figures."""

    host: str
    process: int = Field(description="0 if none runs.")
    born: int
    boot: str
    beat: int
    seen: float
    paused: bool
    facts: dict[str, Any]


class JobPage(ResponseModel):
    """Jobs, the newest first."""

    jobs: list[Job]
    total: int
    counts: dict[str, int]
    orchestrator: Orchestrator | None
    decisions: list[JobEvent]


class JobProgress(ResponseModel):
    """How far a training job is."""

    steps: int
    iterations: int
    seconds: float
    fraction: float


class JobDetails(ResponseModel):
    """A job in full."""

    job: Job
    events: list[JobEvent]
    progress: JobProgress | None
    log: str = Field(description="The end of its log.")


class Submission(BaseModel):
    """A training run to queue."""

    model_config = ConfigDict(extra="forbid")

    env: Annotated[str, Field(min_length=1, max_length=200, description="A native env.")]
    config: Annotated[dict[str, Any], Field(description="Dotted keys of the config.")] = {}
    steps: Annotated[int | None, Field(ge=1, lt=2**53)] = None
    seed: Annotated[int | None, Field(ge=0, lt=2**53)] = None
    priority: Annotated[int | None, Field(ge=-(2**31), lt=2**31)] = None
    group: Annotated[str, Field(min_length=1, max_length=100)] = "default"


class Submitted(ResponseModel):
    """The job that answers a submission or an action."""

    job: int
    state: State
