"""Runs, and everything that is recorded of one run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hotloop.server.models.base import Number, ResponseModel

Status = Literal["running", "completed", "stopped", "failed", "gone"]


class RunRow(ResponseModel):
    """A run in a list."""

    id: str
    number: int
    name: str
    env: str
    seed: str = Field(description="A number of 64 bits, as text.")
    status: Status
    ended: str | None
    created: float
    seen: float
    seconds: float
    steps: int
    limit: int | None = Field(description="The run's train.steps.")
    iterations: int
    episodes: int
    return_recent: Number
    best: Number
    steps_per_second: Number
    host: str
    sparkline: list[Number] = Field(description="At most 60 values of return_recent.")
    tags: list[str]
    note: str
    pinned: bool
    hidden: bool
    values: list[Any] = Field(description="Values of the columns that were asked for.")


class RunPage(ResponseModel):
    """Some of the runs that match."""

    runs: list[RunRow]
    total: int
    cursor: str | None
    stale: bool = Field(description="Whether the store is away and these are the rows that were known last.")
    columns: list[str]


class Keys(ResponseModel):
    """Names that a filter can use."""

    columns: list[str]
    settings: list[str]
    metrics: list[str]


class Statistic(ResponseModel):
    """A mean over runs with a 95 % interval."""

    mean: Number
    std: Number
    n: int
    low: Number
    high: Number


class Group(ResponseModel):
    """Runs that belong together."""

    label: str
    env: str
    runs: list[str]
    settings: dict[str, Any]
    metrics: dict[str, Statistic]


class Groups(ResponseModel):
    """All groups."""

    groups: list[Group]


class Evaluation(ResponseModel):
    """An evaluation."""

    number: int
    step: int
    time: float
    source: str
    mean: Number
    low: Number
    high: Number
    episodes: int
    is_best: bool
    metrics: dict[str, Number]


class Change(ResponseModel):
    """A setting that differs from its default."""

    key: str
    value: Any
    default: Any


class Commands(ResponseModel):
    """Commands for this run."""

    resume: str
    eval: str
    play: str
    verify: str
    plot: str
    show: str


class VerificationResult(ResponseModel):
    """The result of a verification that was recorded."""

    time: float
    host: str
    version: str
    identical: bool
    records: int
    what: str


class RunDetail(RunRow):
    """A run in full."""

    path: str | None
    folder_here: bool
    process: int
    config: dict[str, dict[str, Any]]
    changed: list[Change]
    facts: dict[str, Any]
    best_evaluation: Evaluation | None
    learner: str
    learner_reason: str | None
    commands: Commands
    seconds_left: Number
    exact: bool = Field(description="Whether the policy of any step can be rebuilt.")
    inexact_reason: str | None
    can_stop: bool
    verifications: list[VerificationResult]


Tag = Annotated[str, StringConstraints(max_length=100)]


class RunPatch(BaseModel):
    """Changes of a run's marks."""

    model_config = ConfigDict(extra="forbid")
    tags: list[Tag] | None = Field(None, max_length=50)
    note: str | None = Field(None, max_length=10_000)
    pinned: bool | None = None
    hidden: bool | None = None


class Metric(ResponseModel):
    """A metric of a run; lowest, highest and count are null in a brief answer."""

    name: str
    last: Number
    lowest: Number
    highest: Number
    count: int | None


class Metrics(ResponseModel):
    """All metrics of a run."""

    metrics: list[Metric]


class Evaluations(ResponseModel):
    """Evaluations of a run."""

    evaluations: list[Evaluation]
    next: int | None


class CheckpointEntry(ResponseModel):
    """A checkpoint, or a policy without the state to resume from."""

    name: str
    step: int
    time: Number
    is_best: bool
    exists: bool
    bytes: int | None
    policy_only: bool


class Checkpoints(ResponseModel):
    """Checkpoints of a run."""

    checkpoints: list[CheckpointEntry]
    next: int | None


class RunEvent(ResponseModel):
    """An event of a run."""

    number: int
    step: int
    time: float
    kind: str
    level: str
    what: str
    facts: dict[str, Any]


class EventOfRun(RunEvent):
    """An event with its run."""

    run: str


class Events(ResponseModel):
    """Events of a run."""

    events: list[RunEvent]
    next: int | None


class EpisodeRecord(ResponseModel):
    """The episodes that ended in one record."""

    step: int
    time: float
    count: int
    return_mean: float
    return_std: float
    return_min: float
    return_max: float
    length_mean: float
    sample: list[Any]


class Episodes(ResponseModel):
    """Episodes of a run."""

    episodes: list[EpisodeRecord]
    next: int | None


class Resource(ResponseModel):
    """Usage over time of one consumer: the process, the machine, a worker, a GPU."""

    who: str
    time: list[float]
    step: list[int]
    cpu: list[Number]
    memory: list[Number]
    facts: dict[str, Any]


class Resources(ResponseModel):
    """All consumers of a run."""

    resources: list[Resource]
