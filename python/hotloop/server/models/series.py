"""Series of metrics, and comparisons of runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hotloop.server.models.base import Number, ResponseModel
from hotloop.server.models.runs import EventOfRun


class SeriesEntry(ResponseModel):
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


class SeriesAnswer(ResponseModel):
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


class RunName(ResponseModel):
    """A run in a comparison."""

    id: str
    name: str


class Setting(ResponseModel):
    """A setting in which runs differ."""

    key: str
    values: list[Any]


class Result(ResponseModel):
    """The best evaluation of a run, or of a group of seeds with its interval."""

    label: str
    runs: list[str]
    mean: Number
    low: Number
    high: Number
    n: int


class MetricValues(ResponseModel):
    """A metric of two runs at one step."""

    name: str
    values: list[Number]


class FirstDifference(ResponseModel):
    """The first record in which two runs differ; without a step, none does."""

    step: int | None
    metrics: list[MetricValues]


class MetricChange(ResponseModel):
    """A change point of a metric, or the largest difference from another run."""

    metric: str
    step: int
    before: float
    after: float
    score: float
    run: str


class Comparison(ResponseModel):
    """Differences between runs, or for one run the changes in a window."""

    runs: list[RunName]
    settings: list[Setting]
    results: list[Result]
    probabilities: list[list[Number]] = Field(description="Probability that the result of a row exceeds a column's.")
    first_difference: FirstDifference | None
    changes: list[MetricChange]
    events: list[EventOfRun]
