"""Checks across fields: whether the sections of a config fit each other and the env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hotloop.config.errors import unknown_key
from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from hotloop.config.models import Config


def check(config: Config) -> None:
    """Raise a `ConfigError` that suggests a fix unless the config can be used."""
    from hotloop import _core

    if config.wrap.in_use:
        _check_wrappers(config)
    if config.train.algorithm != "ppo":
        from hotloop.config.tabular.checks import check as check_tabular

        if config.train.evaluate_env:
            raise ConfigError(f"train.evaluate_env is for train.algorithm=ppo, not for {config.train.algorithm}")

        if ":" not in config.env.name:
            _check_env(config)
        check_tabular(config)
        return
    # An env with code of its own is checked when it is loaded: reading a stored config must not execute it.
    if ":" not in config.env.name or _core.has_env(config.env.name):
        check_batches(config, _check_env(config))
    _check_sequences(config)
    _check_schedules(config)
    for size in config.policy.hidden:
        if size < 1:
            raise ConfigError(f"policy.hidden has a layer of {size}: expected sizes of 1 or more")


def _check_env(config: Config) -> int:
    """Check name and options; return the number of agents."""
    from hotloop import _core
    from hotloop.envs.registry import native_name

    try:
        name = native_name(config.env.name)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"env.name: {error}") from None
    options = [option["name"] for option in _core.env_entry(name)["options"]]
    for section, given in (("env", config.env.options), ("train.evaluate_env", config.train.evaluate_env)):
        known = [f"{section}.{option}" for option in options]
        for option, value in given.items():
            if f"{section}.{option}" not in known:
                raise unknown_key(f"{section}.{option}", [*(["env.name"] if section == "env" else []), *known])
            for index, element in enumerate(value if isinstance(value, list) else ()):
                if not isinstance(element, int) or isinstance(element, bool):
                    raise ConfigError(f"{section}.{option}[{index}] is {element!r}: expected a whole number")
    try:
        _core.describe(name, config.evaluation_options)
        return _core.describe(name, config.env.options)["seats"]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"env: {error}") from None


# What native envs have instead of a wrapper.
_NATIVE: Final = {
    "frame_skip": "runner.action_repeat",
    "clip_reward": "ppo.reward_clip",
    "time_limit": "env.max_steps",
}


def _check_wrappers(config: Config) -> None:
    from hotloop.envs.registry import is_native

    name = next(iter(config.wrap.in_use))
    if is_native(config.env.name):
        instead = f": set {_NATIVE[name]} instead" if name in _NATIVE else ""
        raise ConfigError(f"wrap.{name} is for Python envs, and {config.env.name} is native{instead}")
    if config.train.algorithm != "ppo":
        raise ConfigError(f"wrap.{name} is for train.algorithm=ppo, not for {config.train.algorithm}")


def check_batches(config: Config, seats: int) -> None:
    """Check that minibatches fit the rollout; the seats of Python envs are known only once these are made.

    A minibatch size that the user did not set is adapted when the run begins.
    """
    rollout = config.runner.num_envs * seats * config.ppo.horizon
    if config.ppo.minibatch_size > rollout and "minibatch_size" in config.ppo.model_fields_set:
        agents = f" x {seats} agents" if seats > 1 else ""
        raise ConfigError(
            f"ppo.minibatch_size is {config.ppo.minibatch_size}, but a rollout has only {rollout} steps "
            f"(runner.num_envs {config.runner.num_envs}{agents} x ppo.horizon {config.ppo.horizon}): "
            f"set ppo.minibatch_size to at most {rollout}, or raise one of the others"
        )
    if rollout > 2**31:
        raise ConfigError(f"a rollout has {rollout} steps, more than {2**31}: lower runner.num_envs or ppo.horizon")


def _check_sequences(config: Config) -> None:
    ppo = config.ppo
    if config.policy.memory == "none":
        if ppo.sequence_length is not None:
            raise ConfigError(
                f"ppo.sequence_length is {ppo.sequence_length}, but the policy has no memory: "
                "leave it out, or set policy.memory to lstm or gru"
            )
        return
    length = ppo.sequence_length or ppo.horizon
    if ppo.horizon % length:
        raise ConfigError(
            f"ppo.sequence_length is {length}, which does not divide ppo.horizon {ppo.horizon}: "
            f"set it to {_nearest_divisor(ppo.horizon, length)}, or change the horizon"
        )
    if ppo.minibatch_size % length and "minibatch_size" in ppo.model_fields_set:
        raise ConfigError(
            f"ppo.minibatch_size is {ppo.minibatch_size}, which is not a multiple of the sequence length {length} "
            f"(ppo.sequence_length): set it to {max(1, round(ppo.minibatch_size / length)) * length}"
        )


def _nearest_divisor(number: int, wanted: int) -> int:
    return min((n for n in range(1, number + 1) if number % n == 0), key=lambda n: abs(n - wanted))


def _check_schedules(config: Config) -> None:
    for key in ("learning_rate_schedule", "entropy_schedule"):
        if getattr(config.ppo, key) == "linear" and config.train.steps is None:
            raise ConfigError(f"ppo.{key} is linear, which needs the length of the run: set train.steps")
