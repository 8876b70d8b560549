"""Optuna's samplers, asked in memory with a new sampler for each trial, so that its key alone decides its draws."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any, Final

from hotloop.errors import ConfigError
from hotloop.sweeps.samplers import Observation, next_index
from hotloop.sweeps.space import Dimension, Distribution, Settings, Space

try:
    import optuna
except ModuleNotFoundError:
    raise ConfigError(
        "sweep.sampler: this sampler is Optuna's, which is not installed: pip install 'hotloop[sweep]', "
        "or take random, sobol or grid"
    ) from None

_STATES: Final = {
    "completed": optuna.trial.TrialState.COMPLETE,
    "pruned": optuna.trial.TrialState.PRUNED,
    "failed": optuna.trial.TrialState.FAIL,
    "refused": optuna.trial.TrialState.FAIL,
}


class OptunaSampler:
    """A study in memory that follows the sweep: trials are asked for in order, with the results that each may see.

    A resumed sweep asks again for the trials that it has, because some samplers keep their state in the study.
    """

    def __init__(self, name: str, space: Space, objectives: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        if objectives > 1 and name == "cma-es":
            raise ConfigError("sweep.sampler is cma-es, which takes one objective: take tpe, gp or nsga-ii")
        self._name = name
        self._space = space
        self._distributions = {each.name: _distribution(each.distribution) for each in space.dimensions}
        self._study = optuna.create_study(directions=["maximize"] * objectives)
        self._numbers: dict[int, int] = {}
        self._told: set[int] = set()
        _sampler(name, 0)

    def ask(
        self, prefix: Sequence[Observation], pending: Sequence[tuple[int, Settings]], rng: random.Random
    ) -> Settings:
        """Return the settings of the next trial."""
        for each in prefix:
            if each.index not in self._numbers:
                self._add_prior(each)
            if each.index not in self._told:
                self._tell(each)
        self._study.sampler = _sampler(self._name, int(rng.random() * 2**32))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            trial = self._study.ask()
            self._numbers[next_index(prefix, pending)] = trial.number
            return self._space.settings(lambda dimension: self._suggest(trial, dimension))

    def _suggest(self, trial: optuna.Trial, dimension: Dimension) -> Any:
        distribution = self._distributions[dimension.name]
        return dimension.distribution.at(trial._suggest(dimension.name, distribution))

    def _add_prior(self, each: Observation) -> None:
        """Add a trial of another sweep."""
        assert each.index < 0
        self._study.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING))
        self._numbers[each.index] = len(self._study.get_trials(deepcopy=False)) - 1

    def _tell(self, each: Observation) -> None:
        storage, number = self._study._storage, self._numbers[each.index]
        trial_id = storage.get_trial_id_from_study_id_trial_number(self._study._study_id, number)
        for dimension in self._space.dimensions:
            if dimension.is_in(each.settings):
                distribution = self._distributions[dimension.name]
                internal = distribution.to_internal_repr(_parameter(dimension, dimension.value_in(each.settings)))
                storage.set_trial_param(trial_id, dimension.name, internal, distribution)
        for steps, value in each.rungs:
            storage.set_trial_intermediate_value(trial_id, steps, value)
        storage.set_trial_state_values(trial_id, _STATES[each.state], each.values or None)
        self._told.add(each.index)


def _parameter(dimension: Dimension, value: Any) -> float | int:
    """Return a value as Optuna has it."""
    coordinate = dimension.distribution.coordinate(value)
    assert coordinate is not None
    return int(coordinate) if dimension.distribution.is_discrete else coordinate


def _distribution(distribution: Distribution) -> optuna.distributions.BaseDistribution:
    low, high = distribution.bounds
    match distribution.kind:
        case "choice":
            return optuna.distributions.CategoricalDistribution(range(len(distribution.options)))
        case "int" | "pow2":
            return optuna.distributions.IntDistribution(int(low), int(high))
        case "logint":
            return optuna.distributions.IntDistribution(int(low), int(high), log=True)
    return optuna.distributions.FloatDistribution(low, high, log=distribution.kind in ("log", "log1m"))


def _sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    samplers = optuna.samplers
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            match name:
                case "tpe":
                    # Joint densities over settings that apply together; running trials count as bad ones.
                    return samplers.TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)
                case "cma-es":
                    return samplers.CmaEsSampler(seed=seed)
                case "gp":
                    return samplers.GPSampler(seed=seed)
                case _:
                    return samplers.NSGAIISampler(seed=seed)
    except ImportError as error:
        raise ConfigError(f"sweep.sampler is {name!r}, which needs another package: {error}") from None
