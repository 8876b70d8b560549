"""Which learner trains a policy, and how it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hotloop import _core
from hotloop.config.errors import ConfigError
from hotloop.policies.spec import native_description

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.config import Config


class Choice(NamedTuple):
    """A learner, and why it was taken."""

    name: str
    why: str


def choose(config: Config) -> Choice:
    """The learner that `train.learner` stands for."""
    if config.train.learner == "auto":
        return Choice("native", "it serves this policy on the CPU")
    return Choice(config.train.learner, "train.learner names it")


def build_native(
    config: Config, described: Mapping[str, Any], rows: int, *, attempt: int = 0, num_threads: int | None = None
) -> _core.Learner:
    """The native learner of a run, with its first weights, for an env with these spaces."""
    if config.policy.memory != "none":
        raise ConfigError(f"policy.memory is {config.policy.memory}: the native learner cannot train it yet")
    return _core.Learner(
        described,
        None,
        native_description(config.policy),
        rows=rows,
        horizon=config.ppo.horizon,
        seed=config.train.seed,
        attempt=attempt,
        num_threads=num_threads or config.runner.num_threads,
        normalize_observations=config.ppo.normalize_observations,
        normalize_rewards=config.ppo.normalize_rewards,
    )


def build_player(described: Mapping[str, Any], policy: dict[str, Any], normalize: bool) -> _core.Learner:
    """A native policy that only acts."""
    return _core.Learner(
        described, None, policy, rows=1, horizon=1, seed=0, num_threads=1, normalize_observations=normalize
    )
