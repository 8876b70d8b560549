"""Replays and drawn episodes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hotloop.server.models.base import Number, ResponseModel

Colour = tuple[int, int, int]
Point = tuple[float, float]


class ReplayEntry(ResponseModel):
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


class Replays(ResponseModel):
    """The kept replays of a run, best first."""

    replays: list[ReplayEntry]
    folder_here: bool


LineShape = tuple[Literal["line"], list[Point], float, Colour]
DiscShape = tuple[Literal["disc"], Point, float, Colour]
PolygonShape = tuple[Literal["polygon"], list[Point], Colour]
LabelShape = tuple[Literal["label"], Point, str, float, Colour]


class FramesSource(ResponseModel):
    """The policy that plays."""

    kind: Literal["replay", "exact", "checkpoint", "newest"]
    step: int | None
    checkpoint_step: int | None
    note: str | None


class Frames(ResponseModel):
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
