"""The JSON of the routes of sweeps."""

from __future__ import annotations

from typing import Any, Literal

from hotloop.server.models.base import Number, ResponseModel


class SweepFacts(ResponseModel):
    """What is known of a sweep so far."""

    counts: dict[str, int]
    """Trials by state."""
    kept: dict[str, str]
    """Runs by trial."""
    promise: str
    """On which machines it repeats bit for bit."""
    importance: dict[str, float]
    """Share of the results' variance that each setting explains."""


class Sweep(ResponseModel):
    """A sweep with its confirmed winner, if there is one yet."""

    number: int
    name: str
    path: str
    host: str
    process: int
    env: str
    sampler: str
    metric: str
    """`return`, `steps` (to be minimised), or a metric of evaluations."""
    status: Literal["running", "completed", "stopped"]
    created: float
    seen: float
    trials: int
    """Planned number of trials, of PBT the population."""
    best: int | None
    best_value: Number
    best_low: Number
    best_high: Number
    definition: dict[str, Any]
    """`config`, `given`, `sweep` and `space`."""
    facts: SweepFacts


class SweepPage(ResponseModel):
    """Sweeps, the newest first."""

    sweeps: list[Sweep]
    next: int | None
    """Pass as `after` for the next page."""


class Trial(ResponseModel):
    """A trial of a sweep."""

    trial: int
    state: Literal["completed", "pruned", "failed", "refused"]
    value: Number
    confirmed: Number
    confirmed_low: Number
    confirmed_high: Number
    steps: int
    cost: float
    seconds: float
    settings: dict[str, Any]
    facts: dict[str, Any]
    """`why` it ended, `seeds`, `sha256` of its weights, `rungs`, `cpu` and `memory`."""


class TrialPage(ResponseModel):
    """Some trials of a sweep."""

    trials: list[Trial]
    total: int
