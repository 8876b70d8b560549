"""Checks of a config's tabular part, on its own and with its env."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from hotloop.config import Config


def check(config: Config) -> None:
    """Raise a `ConfigError` that says what to change."""
    from hotloop.config.tabular.settings import check_table
    from hotloop.config.tabular.spaces import GYMNASIUM, spaces

    tabular, algorithm = config.tabular, config.train.algorithm
    _check_schedules(config)
    for key, used in (
        ("control.schedules", config.control.schedules),
        ("control.stages", config.control.stages),
        ("opponents.policies", config.opponents.policies),
    ):
        if used:
            raise ConfigError(f"{key} is for ppo, not {algorithm}: leave it out")
    if tabular.replay_size and algorithm == "sarsa":
        raise ConfigError(
            "tabular.replay_size needs an off-policy algorithm: q-learning, expected-sarsa or double-q-learning, "
            "not sarsa"
        )
    is_gymnasium = config.env.name.startswith(GYMNASIUM)
    if ":" in config.env.name and not is_gymnasium:
        raise ConfigError(f"{algorithm} learns native envs and gymnasium:ID, not {config.env.name}: use ppo")
    if tabular.runtime != "one" and (is_gymnasium or tabular.table == "torch"):
        what = "a Gymnasium env" if is_gymnasium else "tabular.table=torch"
        raise ConfigError(f"tabular.runtime is {tabular.runtime!r}, but {what} runs on one thread: set it to one")
    if tabular.table == "torch":
        _check_torch(config, is_gymnasium=is_gymnasium)
    check_table(config, spaces(config))


def _check_schedules(config: Config) -> None:
    tabular = config.tabular
    for key in ("learning_rate", "exploration"):
        kind, scale = getattr(tabular, f"{key}_schedule"), getattr(tabular, f"{key}_scale")
        if kind in ("exponential", "visits") and scale is None:
            raise ConfigError(
                f"tabular.{key}_schedule is {kind}: set tabular.{key}_scale, the "
                f"{'transitions' if kind == 'exponential' else 'visits'} until it has halved"
            )
        if kind == "linear" and scale is None and config.train.steps is None:
            raise ConfigError(f"tabular.{key}_schedule is linear: set tabular.{key}_scale or train.steps, its end")
        if getattr(tabular, f"{key}_floor") > getattr(tabular, key):
            raise ConfigError(f"tabular.{key}_floor is above tabular.{key}: it would never be reached")


def _check_torch(config: Config, *, is_gymnasium: bool) -> None:
    tabular = config.tabular
    if is_gymnasium:
        raise ConfigError("tabular.table=torch is for native envs: set tabular.table to dense or sparse")
    if tabular.storage != "f32" or tabular.replay_size or tabular.batch_size != 1:
        raise ConfigError(
            "tabular.table=torch has f32 values and updates from whole batches: leave tabular.storage, "
            "tabular.batch_size and tabular.replay_size at their defaults"
        )
    for key in ("learning_rate", "exploration"):
        if getattr(tabular, f"{key}_schedule") == "visits":
            raise ConfigError(f"tabular.{key}_schedule is visits, which tabular.table=torch cannot count: use another")
