"""What an env looks like to a table: numbered states and actions, or an error that says why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hotloop.config.errors import ConfigError

if TYPE_CHECKING:
    from hotloop.config import Config

MOST_ACTIONS: Final = 64
GYMNASIUM: Final = "gymnasium:"


@dataclass(frozen=True)
class Spaces:
    """Numbered states and actions."""

    states: int
    actions: int
    described: dict[str, Any]
    """As `_core.describe` tells it: seats, observation, action, masked, terms, metrics."""


def spaces(config: Config) -> Spaces:
    """Of the config's env; a `ConfigError` if it has no such spaces."""
    name = config.env.name
    described = _gymnasium(config) if name.startswith(GYMNASIUM) else _native(config)
    observation, action = described["observation"], described["action"]
    if observation["kind"] != "discrete":
        hint = "; env.observation=id gives it numbered ones" if name == "tictactoe" else ""
        raise ConfigError(
            f"{config.train.algorithm} needs numbered states, but {name} shows {observation['kind']} observations{hint}"
        )
    if action["kind"] != "discrete":
        raise ConfigError(f"{config.train.algorithm} needs numbered actions, but those of {name} are {action['kind']}")
    if action["n"] > MOST_ACTIONS:
        raise ConfigError(f"{name} has {action['n']} actions: a table takes {MOST_ACTIONS} at most")
    return Spaces(observation["n"], action["n"], described)


def _native(config: Config) -> dict[str, Any]:
    from hotloop import _core

    try:
        return dict(_core.describe(config.env.name, config.env.options))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"env: {error}") from None


def _gymnasium(config: Config) -> dict[str, Any]:
    from gymnasium import spaces as kinds

    env = make_gymnasium(config.env.name, config.env.options)
    found = {}
    for key, space in (("observation", env.observation_space), ("action", env.action_space)):
        if isinstance(space, kinds.Discrete) and int(space.start) == 0:
            found[key] = {"kind": "discrete", "n": int(space.n)}
        else:
            found[key] = {"kind": str(space), "n": 0}
    env.close()
    return {"seats": 1, "masked": False, "terms": ["reward"], "metrics": [], **found}


def make_gymnasium(name: str, options: dict[str, Any]) -> Any:
    """The Gymnasium env behind `gymnasium:ID`."""
    import gymnasium

    try:
        return gymnasium.make(name.removeprefix(GYMNASIUM), **options)
    except (gymnasium.error.Error, TypeError, ImportError) as error:
        raise ConfigError(f"env.name is {name!r}: {error}") from None
