"""The JSON of the API, as the OpenAPI document describes it.

Answers are made of plain values and are not validated again: the tests check them against these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Number = float | None
Status = Literal["running", "completed", "stopped", "failed", "gone"]
Colour = tuple[int, int, int]
Point = tuple[float, float]


class Answer(BaseModel):
    """An object of which all properties are always there."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    near: list[str] | None = None
    errors: list[dict[str, Any]] | None = None


class StoreStatus(Answer):
    """The store that is served."""

    url: str
    away_since: Number
    bytes: int | None
    lag: Number = Field(description="Seconds that the slowest running run is behind, by its last record.")


class Gpu(Answer):
    """A GPU of the machine."""

    name: str
    memory: Number
    memory_used: Number
    utilisation: Number


class Machine(Answer):
    """The machine that the server runs on."""

    host: str
    cores: int
    memory: int
    cpu: Number = Field(description="Cores in use.")
    memory_used: int | None
    disk_free: int | None
    disk_total: int | None
    gpus: list[Gpu]


class ServerStatus(Answer):
    """The server's own cost."""

    started: float
    cpu: Number = Field(description="CPU seconds so far.")
    memory: int | None
    port: int


class ServerState(Answer):
    """The server and everything it serves, in numbers."""

    version: str
    boot: str = Field(description="Changes with every start of the server.")
    store: StoreStatus
    runs: dict[str, int] = Field(description="Runs by status.")
    adapters: list[str]
    machine: Machine
    streams: int
    read_only: bool
    can_write: bool = Field(description="Whether this request carries the token.")
    server: ServerStatus
    alerts_unseen: int


class RunRow(Answer):
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


class RunPage(Answer):
    """Some of the runs that match."""

    runs: list[RunRow]
    total: int
    cursor: str | None
    stale: bool = Field(description="Whether the store is away and these are the rows that were known last.")
    columns: list[str]


class Keys(Answer):
    """Names that a filter can use."""

    columns: list[str]
    settings: list[str]
    metrics: list[str]


class Statistic(Answer):
    """A mean over runs with a 95 % interval."""

    mean: Number
    std: Number
    n: int
    low: Number
    high: Number


class Group(Answer):
    """Runs that belong together."""

    label: str
    env: str
    runs: list[str]
    settings: dict[str, Any]
    metrics: dict[str, Statistic]


class Groups(Answer):
    """All groups."""

    groups: list[Group]


class Evaluation(Answer):
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


class Change(Answer):
    """A setting that differs from its default."""

    key: str
    value: Any
    default: Any


class Commands(Answer):
    """Commands for this run."""

    resume: str
    eval: str
    play: str
    verify: str
    plot: str
    show: str


class VerificationResult(Answer):
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


class Metric(Answer):
    """A metric of a run; lowest, highest and count are null in a brief answer."""

    name: str
    last: Number
    lowest: Number
    highest: Number
    count: int | None


class Metrics(Answer):
    """All metrics of a run."""

    metrics: list[Metric]


class SeriesEntry(Answer):
    """A metric in columns: one entry per bucket, or per point if there are few."""

    run: str | None
    runs: list[str]
    label: str
    metric: str
    raw: bool
    total: int
    first: list[float]
    last: list[float]
    low: list[Number]
    high: list[Number]
    mean: list[Number]
    count: list[int]
    smooth: list[Number] | None
    n: list[int] | None
    joined: Literal["step", "record", "interpolated"] | None


class SeriesAnswer(Answer):
    """Series of a page of charts."""

    x: str
    series: list[SeriesEntry]


Name = Annotated[str, StringConstraints(max_length=500)]


class SeriesQuery(BaseModel):
    """The parameters of `GET /series` as a body."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    run: list[Name] = Field(min_length=1, max_length=200)
    metric: list[Name] = Field(min_length=1, max_length=200)
    x: Literal["step", "time", "seconds", "episodes"] = "step"
    low: Annotated[float | None, Field(alias="from", allow_inf_nan=False)] = None
    high: Annotated[float | None, Field(alias="to", allow_inf_nan=False)] = None
    points: Annotated[int, Field(ge=50, le=4000)] = 600
    smooth: Annotated[float, Field(ge=0, le=0.999)] = 0.0
    group: Annotated[str | None, Field(max_length=200)] = None
    stat: Literal["mean", "median", "iqm"] = "mean"
    band: Literal["ci95", "std", "minmax", "none"] = "ci95"


class Evaluations(Answer):
    """Evaluations of a run."""

    evaluations: list[Evaluation]
    next: int | None


class CheckpointEntry(Answer):
    """A checkpoint, or a policy without the state to resume from."""

    name: str
    step: int
    time: Number
    is_best: bool
    exists: bool
    bytes: int | None
    policy_only: bool


class Checkpoints(Answer):
    """Checkpoints of a run."""

    checkpoints: list[CheckpointEntry]
    next: int | None


class RunEvent(Answer):
    """An event of a run."""

    number: int
    step: int
    time: float
    kind: str
    level: str
    what: str
    facts: dict[str, Any]


class Events(Answer):
    """Events of a run."""

    events: list[RunEvent]
    next: int | None


class EpisodeRecord(Answer):
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


class Episodes(Answer):
    """Episodes of a run."""

    episodes: list[EpisodeRecord]
    next: int | None


class Resource(Answer):
    """Usage over time of one consumer: the process, the machine, a worker, a GPU."""

    who: str
    time: list[float]
    step: list[int]
    cpu: list[Number]
    memory: list[Number]
    facts: dict[str, Any]


class Resources(Answer):
    """All consumers of a run."""

    resources: list[Resource]


class RunName(Answer):
    """A run in a comparison."""

    id: str
    name: str


class Setting(Answer):
    """A setting in which runs differ."""

    key: str
    values: list[Any]


class Result(Answer):
    """The best evaluation of a run, or of a group of seeds with its interval."""

    label: str
    runs: list[str]
    mean: Number
    low: Number
    high: Number
    n: int


class MetricValues(Answer):
    """A metric of two runs at one step."""

    name: str
    values: list[Number]


class FirstDifference(Answer):
    """The first record in which two runs differ; without a step, none does."""

    step: int | None
    metrics: list[MetricValues]


class MetricChange(Answer):
    """A change point of a metric, or the largest difference from another run."""

    metric: str
    step: int
    before: float
    after: float
    score: float
    run: str


class EventOfRun(RunEvent):
    """An event with its run."""

    run: str


class Comparison(Answer):
    """Differences between runs, or for one run the changes in a window."""

    runs: list[RunName]
    settings: list[Setting]
    results: list[Result]
    probabilities: list[list[Number]] = Field(description="Probability that the result of a row exceeds a column's.")
    first_difference: FirstDifference | None
    changes: list[MetricChange]
    events: list[EventOfRun]


class ReplayEntry(Answer):
    """A kept replay."""

    name: str
    return_: Annotated[Number, Field(alias="return")]
    steps: int
    seed: str
    index: int
    step: int | None
    time: Number
    bytes: int
    note: str | None


class Replays(Answer):
    """The kept replays of a run, best first."""

    replays: list[ReplayEntry]
    folder_here: bool


LineShape = tuple[Literal["line"], list[Point], float, Colour]
DiscShape = tuple[Literal["disc"], Point, float, Colour]
PolygonShape = tuple[Literal["polygon"], list[Point], Colour]
LabelShape = tuple[Literal["label"], Point, str, float, Colour]


class FramesSource(Answer):
    """The policy that plays."""

    kind: Literal["replay", "exact", "checkpoint", "newest"]
    step: int | None
    checkpoint_step: int | None
    note: str | None


class Frames(Answer):
    """An episode, drawn: a table of shapes, and for each moment the shapes that are on it."""

    env: str
    seats: int
    seed: str
    index: int
    steps: int
    pace: float
    bounds: tuple[float, float, float, float] | None
    paper: Colour
    shapes: list[LineShape | DiscShape | PolygonShape | LabelShape]
    frames: list[list[int]]
    texts: list[str] | None
    state: list[dict[str, Any]] | None
    actions: list[list[Any]]
    action_names: list[str]
    action_texts: list[list[str]]
    rewards: list[list[Number]]
    returns: list[list[Number]]
    values: list[list[Number]] | None
    probabilities: list[list[list[float] | None]] | None
    seat_at: list[list[Point]] | None
    seat_policies: list[str] | None
    title: str
    checked: bool
    ended: Literal["terminated", "truncated", "cut"] | None
    source: FramesSource


class PlayRequest(BaseModel):
    """An episode to play."""

    model_config = ConfigDict(extra="forbid")
    step: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    checkpoint: Annotated[str | None, Field(max_length=100, description="best, last, newest, or a name.")] = None
    seed: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")] = "0"
    index: Annotated[int, Field(ge=0, lt=2**31)] = 0
    stochastic: bool = False
    exact: Annotated[bool, Field(description="Rebuild the policy of `step` however long it takes.")] = False
    options: dict[str, bool | int | float | str | list[int]] = Field(default_factory=dict, max_length=100)


class Empty(BaseModel):
    """An empty body."""

    model_config = ConfigDict(extra="forbid")


class Accepted(Answer):
    """Work that goes on after the answer."""

    run: str
    what: str


class SessionRequest(BaseModel):
    """The code of the printed link, or the token itself."""

    model_config = ConfigDict(extra="forbid")
    code: Annotated[str | None, Field(max_length=200)] = None
    token: Annotated[str | None, Field(max_length=200)] = None


class Alert(EventOfRun):
    """A warning or an error of any run."""

    run_name: str
    env: str
    seen: bool


class AlertList(Answer):
    """Alerts, newest first."""

    alerts: list[Alert]
    unseen: int


class PerformanceGroup(Answer):
    """Speed by env, learner and version."""

    env: str
    learner: str
    version: str
    runs: int
    steps_per_second: Number
    best_steps_per_second: Number
    cores: Number
    split: dict[str, float] = Field(description="Shares of the time.")


class PerformanceSummary(Answer):
    """All groups."""

    groups: list[PerformanceGroup]


class TrendPoint(Answer):
    """The speed of one run."""

    time: float
    version: str
    steps_per_second: float
    run: str


class Trend(Answer):
    """The speed of an env with a learner, over time."""

    env: str
    learner: str
    points: list[TrendPoint]


class Trends(Answer):
    """All trends."""

    trends: list[Trend]


class Sweeps(Answer):
    """Sweeps; there are none yet."""

    sweeps: list[dict[str, Any]]


class Health(Answer):
    """A sign of life."""

    ok: bool
