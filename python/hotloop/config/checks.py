"""What no single field can tell: whether the parts of a config fit each other and the env."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.config.errors import ConfigError, unknown_key

if TYPE_CHECKING:
    from hotloop.config.models import Config


def check(config: Config) -> None:
    """Raises a `ConfigError` that says what to change."""
    seats = _check_env(config)
    _check_batches(config, seats)
    _check_schedules(config)
    for size in config.policy.hidden:
        if size < 1:
            raise ConfigError(f"policy.hidden has a layer of {size}: expected sizes of 1 or more")


def _check_env(config: Config) -> int:
    """Checks name and options; gives the number of agents."""
    from hotloop import _core
    from hotloop.envs.registry import native_name

    try:
        name = native_name(config.env.name)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"env.name: {error}") from None
    entry = next(entry for entry in _core.list_envs() if entry["name"] == name)
    known = [f"env.{option['name']}" for option in entry["options"]]
    for option in config.env.options:
        if f"env.{option}" not in known:
            raise unknown_key(f"env.{option}", ["env.name", *known])
    try:
        return _core.describe(name, config.env.options)["seats"]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"env: {error}") from None


def _check_batches(config: Config, seats: int) -> None:
    rollout = config.runner.num_envs * seats * config.ppo.horizon
    if config.ppo.minibatch_size > rollout:
        agents = f" x {seats} agents" if seats > 1 else ""
        raise ConfigError(
            f"ppo.minibatch_size is {config.ppo.minibatch_size}, but a rollout has only {rollout} steps "
            f"(runner.num_envs {config.runner.num_envs}{agents} x ppo.horizon {config.ppo.horizon}): "
            f"set ppo.minibatch_size to at most {rollout}, or raise one of the others"
        )
    if rollout > 2**31:
        raise ConfigError(f"a rollout has {rollout} steps, more than {2**31}: lower runner.num_envs or ppo.horizon")


def _check_schedules(config: Config) -> None:
    for key in ("learning_rate_schedule", "entropy_schedule"):
        if getattr(config.ppo, key) == "linear" and config.train.steps is None:
            raise ConfigError(f"ppo.{key} is linear, which needs to know the end: set train.steps")
