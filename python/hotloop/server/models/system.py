"""The server, its machine, alerts, and the speed of all runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from hotloop.server.models.base import Number, ResponseModel
from hotloop.server.models.runs import EventOfRun


class StoreStatus(ResponseModel):
    """The store that is served."""

    url: str
    away_since: Number
    bytes: int | None
    lag: Number = Field(description="Seconds that the slowest running run is behind, by its last record.")


class Gpu(ResponseModel):
    """A GPU of the machine."""

    name: str
    memory: Number
    memory_used: Number
    utilisation: Number


class Machine(ResponseModel):
    """The machine that the server runs on."""

    host: str
    cores: int
    memory: int
    cpu: Number = Field(description="Cores in use.")
    memory_used: int | None
    disk_free: int | None
    disk_total: int | None
    gpus: list[Gpu]


class ServerStatus(ResponseModel):
    """The server's own cost."""

    started: float
    cpu: Number = Field(description="CPU seconds so far.")
    memory: int | None
    port: int


class ServerState(ResponseModel):
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


class AlertList(ResponseModel):
    """Alerts, newest first."""

    alerts: list[Alert]
    unseen: int


class PerformanceGroup(ResponseModel):
    """Speed by env, learner and version."""

    env: str
    learner: str
    version: str
    runs: int
    steps_per_second: Number
    best_steps_per_second: Number
    cores: Number
    split: dict[str, float] = Field(description="Shares of the time.")


class PerformanceSummary(ResponseModel):
    """All groups."""

    groups: list[PerformanceGroup]


class TrendPoint(ResponseModel):
    """The speed of one run."""

    time: float
    version: str
    steps_per_second: float
    run: str


class Trend(ResponseModel):
    """The speed of an env with a learner, over time."""

    env: str
    learner: str
    points: list[TrendPoint]


class Trends(ResponseModel):
    """All trends."""

    trends: list[Trend]


class Health(ResponseModel):
    """A sign of life."""

    ok: bool
