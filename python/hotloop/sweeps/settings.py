"""Settings of a sweep, as they stand under `sweep:` in its file."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field, field_validator

from hotloop.config.models import Part
from hotloop.errors import ConfigError

PBT: Final = "pbt"


class PruneSettings(Part):
    """Pruning: trials that are clearly worse than earlier ones at a rung end there."""

    by: Literal["none", "halving", "median", "hyperband", "halving-sync"] = Field(
        default="none", description="Rule: `halving` keeps the best 1/factor, `median` the better half, of each rung."
    )
    first: int = Field(default=16384, ge=1, description="Steps of the first rung.")
    factor: int = Field(default=3, ge=2, description="Ratio of one rung's steps to the one before.")

    @property
    def waits(self) -> bool:
        """Whether all trials of a rung end before any of them goes on."""
        return self.by == "halving-sync"


class ConfirmSettings(Part):
    """Confirmation: the best trials are trained again with seeds that had no part in choosing them."""

    top: int = Field(default=5, ge=0, description="Number of trials that are confirmed.")
    seeds: int = Field(default=16, ge=2, description="Fresh seeds of each.")


class PbtSettings(Part):
    """Population-based training."""

    population: int = Field(default=8, ge=2, le=10_000, description="Members that train at once.")
    interval: int = Field(default=32768, ge=1, description="Steps of a generation.")
    quantile: float = Field(
        default=0.25, gt=0, le=0.5, description="Share of members that are replaced by copies of as many of the best."
    )
    factors: list[float] = Field(
        default=[0.8, 1.25], min_length=1, description="Factors, one of which changes each setting of a copy."
    )
    resample: float = Field(
        default=0.25, ge=0, le=1, description="Probability that a setting is drawn from the space instead."
    )


class SweepSettings(Part):
    """A sweep: how many trials, how they are chosen, and what decides."""

    trials: int | None = Field(default=None, ge=1, le=1_000_000, description="Number of trials.")
    seed: int = Field(default=0, ge=0, lt=2**63, description="Key of all draws and training seeds.")
    sampler: str | None = Field(
        default=None, description="random, sobol, grid, tpe, cma-es, gp, nsga-ii, pbt, or module:Class."
    )
    lag: int = Field(
        default=8, ge=1, le=4096, description="A trial sees the results up to this many before it; bounds the slots."
    )
    seeds: int = Field(default=1, ge=1, le=1000, description="Training seeds per trial.")
    objective: list[str] = Field(
        default=["return"],
        min_length=1,
        max_length=2,
        description="return, steps (until train.until), or a metric of evaluations; and cost for a Pareto front.",
    )
    prune: PruneSettings = PruneSettings()
    confirm: ConfirmSettings = ConfirmSettings()
    keep: int = Field(default=1, ge=0, le=1000, description="Best trials that get a run folder.")
    grid: int = Field(default=4, ge=1, le=1000, description="Values of each number in a grid.")
    pbt: PbtSettings = PbtSettings()

    @field_validator("objective", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("prune", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Accept the rule's name alone."""
        return {"by": value} if isinstance(value, str) else value

    def check(self) -> None:
        """Raise a `ConfigError` unless the settings fit each other."""
        first, *more = self.objective
        is_pbt = self.sampler == PBT
        wrong = {
            f"objective is {self.objective}: expected one, or one and cost, such as [return, cost]": first == "cost"
            or more not in ([], ["cost"]),
            "pbt compares members after equally many steps: its objective is return or a metric": is_pbt
            and (bool(more) or first == "steps"),
            "the objective steps ends trials itself: leave prune out": first == "steps" and self.prune.by != "none",
            "pbt replaces members itself: leave prune out": is_pbt and self.prune.by != "none",
            "pbt trains every member once: leave seeds out": is_pbt and self.seeds > 1,
            "halving-sync trains every trial once: leave seeds out, confirm has its own": self.prune.waits
            and self.seeds > 1,
        }
        for what, applies in wrong.items():
            if applies:
                raise ConfigError(f"sweep: {what}")

    @property
    def metric(self) -> str:
        """The first objective."""
        return self.objective[0]

    @property
    def has_cost(self) -> bool:
        """Whether cost is the second objective."""
        return len(self.objective) > 1
