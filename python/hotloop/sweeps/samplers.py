"""Samplers: the settings of the next trial from the results that it may see.

A sampler sees the results of a fixed set of earlier trials and draws from a key of its own, so that a sweep does not
depend on the order in which trials end. `random`, `sobol` and `grid` give the same settings everywhere; Optuna's
samplers do on CPUs of one kind.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from hotloop.errors import ConfigError
from hotloop.sweeps import keys, sobol
from hotloop.sweeps.space import Dimension, Settings, Space

BUILT_IN: Final = ("random", "sobol", "grid")
OPTUNA: Final = ("tpe", "cma-es", "gp", "nsga-ii")


@dataclass(frozen=True)
class Observation:
    """The result of a trial, as samplers see it."""

    index: int
    """Its number; trials of another sweep (`--from`) have negative ones."""
    settings: Settings
    state: str
    """`completed`, `pruned`, `failed` or `refused`."""
    values: tuple[float, ...]
    """Objectives, each to be maximised; empty if the trial failed or was refused."""
    rungs: tuple[tuple[int, float], ...] = ()
    """Steps and mean return of evaluations on the way."""


class Sampler(Protocol):
    """A source of settings; `module:Class` names one of your own, which is called with the space and the seed."""

    def ask(
        self, prefix: Sequence[Observation], pending: Sequence[tuple[int, Settings]], rng: random.Random
    ) -> Settings:
        """Return the settings of the next trial.

        Args:
            prefix: The results that this trial may see, by index.
            pending: Indices and settings of the trials between those and this one.
            rng: Generator for this trial alone; use `rng.random()`.
        """


class RandomSampler:
    """Independent draws."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed

    def ask(
        self, prefix: Sequence[Observation], pending: Sequence[tuple[int, Settings]], rng: random.Random
    ) -> Settings:
        """Return settings drawn from the space; each dimension has a key of its own."""
        return random_settings(self._space, self._seed, next_index(prefix, pending))


class SobolSampler:
    """Points of a Sobol' sequence, one dimension of the space each."""

    def __init__(self, space: Space, seed: int) -> None:
        if len(space.dimensions) > sobol.MOST_DIMENSIONS:
            raise ConfigError(
                f"sweep.sampler is sobol, which takes at most {sobol.MOST_DIMENSIONS} dimensions: "
                f"the space has {len(space.dimensions)}"
            )
        self._space, self._seed = space, seed
        self._numbers = {dimension.name: number for number, dimension in enumerate(space.dimensions)}

    def ask(
        self, prefix: Sequence[Observation], pending: Sequence[tuple[int, Settings]], rng: random.Random
    ) -> Settings:
        """Return the point of this trial's index."""
        index = next_index(prefix, pending)

        def choose(dimension: Dimension) -> Any:
            return dimension.distribution.value(sobol.coordinate(index, self._numbers[dimension.name], self._seed))

        return self._space.settings(choose)


class GridSampler:
    """All combinations, the last dimension changing fastest."""

    def __init__(self, points: Sequence[Settings]) -> None:
        self._points = points

    def ask(
        self, prefix: Sequence[Observation], pending: Sequence[tuple[int, Settings]], rng: random.Random
    ) -> Settings:
        """Return the combination of this trial's index."""
        return self._points[next_index(prefix, pending)]


def next_index(prefix: Sequence[Observation], pending: Sequence[tuple[int, Settings]]) -> int:
    """Return the index of the trial that is asked for."""
    if pending:
        return pending[-1][0] + 1
    return prefix[-1].index + 1 if prefix and prefix[-1].index >= 0 else 0


def random_settings(space: Space, seed: int, index: int) -> Settings:
    """Return the settings that random search has at an index."""
    return space.settings(lambda each: each.distribution.value(keys.uniform("draw", seed, index, each.name)))


def make_sampler(name: str, space: Space, seed: int, *, objectives: int, grid: int) -> Sampler:
    """Return the sampler of that name; a `ConfigError` says what it lacks."""
    match name:
        case "random":
            return RandomSampler(space, seed)
        case "sobol":
            return SobolSampler(space, seed)
        case "grid":
            return GridSampler(space.grid(grid))
    if name in OPTUNA:
        from hotloop.sweeps.optuna_sampler import OptunaSampler

        return OptunaSampler(name, space, objectives)
    if ":" not in name:
        from difflib import get_close_matches

        names = [*BUILT_IN, *OPTUNA, "pbt"]
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected {', '.join(names)}, or module:Class"
        raise ConfigError(f"sweep.sampler is {name!r}: {hint}")
    from hotloop.code import named_code

    sampler: Sampler = named_code(name, "sweep.sampler")(space, seed)
    return sampler


def default_sampler() -> str:
    """Return `tpe` where Optuna is installed, else `sobol`."""
    from importlib.util import find_spec

    return "sobol" if find_spec("optuna") is None else "tpe"
