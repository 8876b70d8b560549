"""The registry of envs by name. Loads neither NumPy nor Gymnasium, so that listing them is instant."""

import difflib
from dataclasses import dataclass
from typing import Any

from hotloop import _core
from hotloop.envs.loader import brings_code
from hotloop.envs.spec import (
    Action,
    DiscreteAction,
    DiscreteObservation,
    MultiDiscreteAction,
    Observation,
    native_spec,
)


@dataclass(frozen=True)
class OptionEntry:
    """One option of an env."""

    name: str
    about: str
    default: bool | int | float | str | list[int]
    fixed: bool
    """Whether the spaces depend on it, so that it cannot change during the life of a runner."""
    low: float | None
    high: float | None
    choices: tuple[str, ...] | None


@dataclass(frozen=True)
class EnvEntry:
    """A native env, with its spaces under default options."""

    name: str
    about: str
    gymnasium_id: str
    """Its id in Gymnasium's registry; empty for an env from a user's file."""
    seats: int
    """Rows per env."""
    observation: str
    action: str
    masked: bool
    """Whether the env has action masks (`info["action_mask"]`)."""
    terms: tuple[str, ...]
    """Reward terms, whose weighted sum is the reward."""
    metrics: tuple[str, ...]
    """Quantities that are measured once per episode."""
    infos: tuple[str, ...]
    """Info arrays that can be requested."""
    state: tuple[str, ...]
    """Fields of `get_state` and `set_state`."""
    options: tuple[OptionEntry, ...]


def list_envs() -> list[EnvEntry]:
    """Return all native envs.

    >>> [env.name for env in list_envs()][:3]
    ['cartpole', 'mountain-car', 'acrobot']
    """
    return [_entry(env) for env in _core.list_envs()]


def env_entry(name: str) -> EnvEntry:
    """Return an env: a native one, or one from a user's file that was loaded."""
    return _entry(_core.env_entry(name))


def _entry(env: Any) -> EnvEntry:
    spec = native_spec(env["name"])
    is_external = ":" in env["name"]
    options = []
    for option in env["options"]:
        choices = option["choices"]
        options.append(OptionEntry(**{**option, "choices": None if choices is None else tuple(choices)}))
    return EnvEntry(
        name=env["name"],
        about=env["about"],
        gymnasium_id="" if is_external else f"hotloop/{env['gymnasium_id']}",
        seats=spec.seats,
        observation=_observation_text(spec.observation),
        action=_action_text(spec.action),
        masked=spec.masked,
        terms=spec.terms,
        metrics=spec.metrics,
        infos=tuple(name for name, _ in spec.infos),
        state=spec.state,
        options=tuple(options),
    )


def _observation_text(observation: Observation) -> str:
    if isinstance(observation, DiscreteObservation):
        return f"Discrete({observation.n})"
    return f"Box({_shape_text(observation.shape)}, {observation.dtype})"


def _action_text(action: Action) -> str:
    match action:
        case DiscreteAction():
            return f"Discrete({action.n})"
        case MultiDiscreteAction():
            return f"MultiDiscrete({list(action.n)})"
        case _:
            return f"Box({_shape_text(action.shape)}, float32)"


def _shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def is_native(env: str) -> bool:
    """Return whether an env is stepped by native threads, unlike `gymnasium:ID`, `module:factory` and others."""
    return ":" not in env or brings_code(env)


def native_name(env: object) -> str:
    """Return the name of a native env; raise an error that suggests one otherwise."""
    names = {entry["name"]: entry["gymnasium_id"] for entry in _core.list_envs()}
    if not isinstance(env, str):
        raise TypeError(f"env is {env!r}: expected the name of a native env: {', '.join(names)}")
    if env in names or (brings_code(env) and _core.has_env(env)):
        return env
    candidates = {word.lower(): name for name, id in names.items() for word in (name, id, id.partition("-v")[0])}
    near = difflib.get_close_matches(env.lower().removeprefix("hotloop/").replace("_", "-"), candidates, n=1)
    meant = [candidates[name] for name in near] + _in_gymnasium(env)
    hint = f" Did you mean {' or '.join(map(repr, meant))}?" if meant else ""
    raise ValueError(f"there is no native env {env!r}.{hint} There are: {', '.join(names)}")


def _in_gymnasium(env: str) -> list[str]:
    """Return the name for an env that is registered with Gymnasium, or would be by a package that is known."""
    if not env.rpartition("-v")[2].isdecimal():
        return []
    import gymnasium

    from hotloop.envs.adapters.packages import registering_package

    known = env in gymnasium.registry or registering_package(env) is not None
    return [f"gymnasium:{env}"] if known else []
