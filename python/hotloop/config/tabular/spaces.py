"""Discrete spaces of an env for tabular learning, or an error that says why it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hotloop.envs.spec import DiscreteAction, DiscreteObservation, EnvSpec, native_spec
from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from hotloop.config import Config

MOST_ACTIONS: Final = 64
GYMNASIUM: Final = "gymnasium:"


@dataclass(frozen=True)
class Spaces:
    """Numbers of states and actions."""

    states: int
    actions: int
    spec: EnvSpec


def spaces(config: Config) -> Spaces:
    """Return the spaces of the config's env; raise a `ConfigError` if they are not discrete."""
    name = config.env.name
    spec = _gymnasium(config) if name.startswith(GYMNASIUM) else _native(config)
    observation, action = spec.observation, spec.action
    if not isinstance(observation, DiscreteObservation):
        hint = ": set env.observation=id" if name == "tictactoe" else ""
        raise ConfigError(
            f"{config.train.algorithm} needs discrete observations, but those of {name} are {observation.kind}{hint}"
        )
    if not isinstance(action, DiscreteAction):
        raise ConfigError(f"{config.train.algorithm} needs discrete actions, but those of {name} are {action.kind}")
    if action.n > MOST_ACTIONS:
        raise ConfigError(f"{name} has {action.n} actions: a table supports at most {MOST_ACTIONS}")
    return Spaces(observation.n, action.n, spec)


def _native(config: Config) -> EnvSpec:
    try:
        return native_spec(config.env.name, config.env.options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"env: {error}") from None


def _gymnasium(config: Config) -> EnvSpec:
    from gymnasium import spaces as kinds

    env = make_gymnasium(config.env.name, config.env.options)
    observation, action = env.observation_space, env.action_space
    env.close()
    for what, space in (("observations", observation), ("actions", action)):
        if not isinstance(space, kinds.Discrete) or int(space.start) != 0:
            raise ConfigError(
                f"{config.train.algorithm} needs discrete {what} that start at 0, but those of {config.env.name} "
                f"are {space}"
            )
    return EnvSpec(
        seats=1,
        observation=DiscreteObservation(int(observation.n)),
        action=DiscreteAction(int(action.n)),
        masked=False,
    )


def make_gymnasium(name: str, options: dict[str, Any]) -> Any:
    """Make the Gymnasium env that `gymnasium:ID` names."""
    import gymnasium

    try:
        return gymnasium.make(name.removeprefix(GYMNASIUM), **options)
    except (gymnasium.error.Error, TypeError, ImportError) as error:
        raise ConfigError(f"env.name is {name!r}: {error}") from None
