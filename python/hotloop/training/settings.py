"""General settings: PPO's hyperparameters for envs without packaged ones, chosen by the kind of env and its speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hotloop import _core
from hotloop.config.loader import general_settings, given_keys, packaged_defaults, with_changes
from hotloop.envs.registry import is_native
from hotloop.envs.spec import EnvSpec, native_spec
from hotloop.errors import ConfigError, EnvError, WorkersFailedError
from hotloop.policies.spec import takes_cnn
from hotloop.text import measured, short
from hotloop.training.sources import make_runner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hotloop.config import Config
    from hotloop.runners.processes import ProcessRunner

# Seconds for which the speed of a Python env is measured.
_TRIAL: Final = 0.2
# Steps per second of one env below which the envs take far longer than the learner, whatever its settings.
_SLOW: Final = 500.0
# Most envs that are started to keep all cores busy.
_MOST_ENVS: Final = 64
_SHORTEST_HORIZON: Final = 32
# Rows that several agents bring together, so that as many envs suffice.
_ROWS: Final = 32


class Facts(NamedTuple):
    """Facts that general settings are chosen by."""

    spec: EnvSpec
    steps_per_second: float | None
    """Measured speed of one Python env; None for native code, and where it decides nothing or faults kept it from being
    measured."""
    is_native: bool = False


def settle(config: Config, note: Callable[[str], object], *, debug: bool = False) -> Config:
    """Return the config that a new run has: with all settings that the user left open, each choice noted."""
    if config.train.algorithm != "ppo":
        return config
    name, options = config.env.name, config.env.options
    if packaged_defaults(name, "ppo") is None:
        facts = look_at(config, debug=debug)
        settings, why = choose(facts, config)
        config = fill(config, settings)
        note(f"settings: {why}: {describe(config)}")
        seats = facts.spec.seats
    else:
        seats = native_spec(name, options).seats
    return fit_minibatch(config, seats, note)


def look_at(config: Config, *, debug: bool = False) -> Facts:
    """Return an env's spaces and, for a Python env whose settings depend on it, its speed in a worker process."""
    if is_native(config.env.name):
        try:
            return Facts(native_spec(config.env.name, config.env.options), None, is_native=True)
        except ValueError as error:
            raise ConfigError(f"env: {error}") from None
    runner = make_runner(config, 1, debug=debug)
    # Nobody's env is stepped for nothing: the speed decides on these alone.
    speed_matters = not {"runner.num_envs", "ppo.horizon"} <= given_keys(config)
    try:
        return Facts(runner.env_spec, _measure(runner) if speed_matters else None)
    except EnvError as error:
        raise ConfigError(f"env.name is {config.env.name!r}: {error}") from None
    finally:
        runner.close()


def _measure(runner: ProcessRunner) -> float | None:
    """Return the steps per second of one env; None if it failed, which the run itself will report."""
    runner.action_space.seed(0)
    sampled = runner.action_space.sample()
    steps = 0
    try:
        _, info = runner.reset(seed=0)
        start = time.perf_counter()
        while (seconds := time.perf_counter() - start) < _TRIAL or not steps:
            _, _, _, _, info = runner.step(_allowed(sampled, info.get("action_mask"), runner.env_spec))
            steps += 1
    except (EnvError, WorkersFailedError):
        return None
    return None if runner.faults().count else steps / seconds


def _allowed(actions: Any, mask: NDArray[Any] | None, spec: EnvSpec) -> Any:
    """Return the actions, or the first allowed choices where the env masks some."""
    if mask is None:
        return actions
    if isinstance(actions, tuple):
        choices, reals = actions
        return _allowed(choices, mask, spec), reals
    ends = np.cumsum(spec.action.choices)[:-1]
    choices = [part.argmax(axis=1) for part in np.split(mask.reshape(len(actions), -1), ends, axis=1)]
    return np.stack(choices, axis=1).reshape(actions.shape)


def choose(facts: Facts, config: Config) -> tuple[dict[str, dict[str, Any]], str]:
    """Return general settings for an env, and the reason."""
    spec, speed = facts.spec, facts.steps_per_second
    if takes_cnn(config.policy, spec.observation):
        kind, why = "images", "image observations"
    elif spec.action.low:
        kind, why = "continuous", "discrete and continuous actions" if spec.action.choices else "continuous actions"
    else:
        kind, why = "discrete", "discrete actions"
    layers = [general_settings(kind)]
    if facts.is_native and kind != "images":
        layers.append(general_settings("fast"))
    if spec.seats > 1:
        layers.append(general_settings("agents"))
        why += f", {spec.seats} agents"
    settings: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for part, values in layer.items():
            settings.setdefault(part, {}).update(values)
    envs, horizon = settings["runner"]["num_envs"], settings["ppo"]["horizon"]
    if spec.seats > 1:
        envs = max(1, -(-max(envs, _ROWS) // spec.seats))
    if speed is not None and speed < _SLOW:
        steps = envs * horizon
        # Two groups per worker process, so that one is stepped while the other one's actions are computed.
        envs = max(envs, min(_MOST_ENVS, 2 * _core.usable_cores()))
        horizon = max(_SHORTEST_HORIZON, steps // envs)
        settings["track"]["interval"] = 1
    settings["runner"]["num_envs"], settings["ppo"]["horizon"] = envs, horizon
    if facts.is_native:
        why += ", native code"
    elif speed is not None:
        why += f", {short(speed)} steps/s per env"
    return settings, why


def fill(config: Config, settings: Mapping[str, Mapping[str, Any]]) -> Config:
    """Return the config with these settings where the user gave none."""
    given = given_keys(config)
    left = {
        part: {key: value for key, value in values.items() if f"{part}.{key}" not in given}
        for part, values in settings.items()
    }
    return with_changes(config, left, given=())


def describe(config: Config) -> str:
    """Return the most important settings in a line."""
    ppo, policy = config.ppo, config.policy
    normalized = [name for name in ("observations", "rewards") if getattr(ppo, f"normalize_{name}")]
    parts = [
        f"{config.runner.num_envs} envs x {ppo.horizon} steps",
        f"{ppo.epochs} epochs",
        f"minibatches of {ppo.minibatch_size}",
        f"learning rate {measured(ppo.learning_rate)}",
        f"{'one network' if policy.shared else 'separate networks'} for policy and value",
    ]
    if normalized:
        parts.append(f"normalised {' and '.join(normalized)}")
    return ", ".join(parts)


def fit_minibatch(config: Config, seats: int, note: Callable[[str], object]) -> Config:
    """Fit a minibatch size that the user did not set to the rollout, and to whole sequences of recurrent policies."""
    ppo = config.ppo
    if "minibatch_size" in ppo.model_fields_set:
        return config
    rollout = config.runner.num_envs * seats * ppo.horizon
    unit = 1 if config.policy.memory == "none" else ppo.sequence_length or ppo.horizon
    size = max(unit, min(ppo.minibatch_size, rollout) // unit * unit)
    if size == ppo.minibatch_size:
        return config
    why = f"a rollout has only {rollout} steps" if rollout < ppo.minibatch_size else f"sequences have {unit} steps"
    note(f"ppo.minibatch_size is {size} instead of {ppo.minibatch_size}: {why}")
    return with_changes(config, {"ppo": {"minibatch_size": size}}, given=())
