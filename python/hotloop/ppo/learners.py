"""The interface of PPO learners, and the choice and construction of the one that trains a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hotloop import _core
from hotloop.errors import ConfigError
from hotloop.policies.protocol import BatchPolicy
from hotloop.policies.spec import ModuleSpec, PolicySpec, policy_spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hotloop.config import Config
    from hotloop.envs.spec import EnvSpec
    from hotloop.ppo.torch.learner import TorchLearner

    Floats = NDArray[np.float32]
    Ints = NDArray[np.int64]
    Arrays = dict[str, NDArray[Any]]

_INSTALL = "pip install 'hotloop[torch]'"


class Learner(BatchPolicy, Protocol):
    """A policy that is trained by PPO: the interface of the native and the torch learner."""

    @property
    def num_threads(self) -> int:
        """Number of threads."""

    @property
    def parameters(self) -> int:
        """Number of weights of the policy."""

    @property
    def notes(self) -> Sequence[str]:
        """Remarks on device, threads and compilation for the user."""

    def conditions(self) -> dict[str, Any]:
        """Return the conditions of bit-identical results, which checkpoints record."""

    def changed_since(self, kept: Mapping[str, Any]) -> list[str]:
        """Return the conditions that differ from those a checkpoint recorded."""

    def iterate(self, pool: _core.Pool, settings: dict[str, Any], count: int, seconds: float) -> dict[str, Any]:
        """Run up to `count` iterations with equal settings, or as many as begin within `seconds`."""

    def collect(self, pool: _core.Pool, settings: dict[str, Any]) -> None:
        """Fill the rollout from native envs, advantages included."""

    def begin_rollout(self) -> None:
        """Begin a rollout whose envs are stepped elsewhere, with the observations that the last one ended with."""

    def act_rows(self, slots: Ints, rows: Ints, iteration: int) -> NDArray[Any]:
        """Choose the actions of these rows, each at its slot, in one forward pass, and store them in the rollout."""

    def end_episodes(self, slots: Ints, rows: Ints, final_obs: ArrayLike | None = None) -> None:
        """End the episodes of those of these rows that terminated or were truncated at their slots.

        `final_obs` has the final observations of the truncated ones, in order.
        """

    def finish_rollout(self, settings: dict[str, Any]) -> None:
        """Compute bootstrap values and advantages of a rollout whose envs were stepped elsewhere."""

    def advantages(self, settings: dict[str, Any]) -> None:
        """Fill advantage, target and weight from the rest of the rollout."""

    def update(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Update the policy from the rollout, then the statistics."""

    def gradient(self, settings: dict[str, Any]) -> tuple[dict[str, Floats], dict[str, float]]:
        """Return the gradient of the whole rollout as one batch, and the loss."""

    def rollout(self) -> Arrays:
        """Return views of the rollout's arrays, time first."""

    def arrays(self) -> dict[str, Floats]:
        """Return the policy's weights by name."""

    def set_arrays(self, arrays: dict[str, Floats]) -> None:
        """Replace the policy's weights."""

    def statistics(self) -> dict[str, NDArray[np.float64]]:
        """Return the running statistics that belong to the policy."""

    def state(self) -> Arrays:
        """Return optimiser moments, running statistics and recurrent states."""

    def set_state(self, state: Arrays) -> None:
        """Replace the parts that `state` has."""

    def set_opponents(self, policies: list[tuple[dict[str, Any], Arrays, Arrays]]) -> None:
        """Set the frozen policies 1, 2, ...: spec as JSON, weights and statistics of each."""


class Choice(NamedTuple):
    """The learner of a run."""

    name: str
    why: str
    """Why the config needs it; empty where there is nothing to explain."""

    def __str__(self) -> str:
        reason = f": {self.why}" if self.why else ""
        return f"native (CPU){reason}" if self.name == "native" else f"{self.name}{reason}"


def choose(config: Config, spec: EnvSpec) -> Choice:
    """Return the learner that `train.learner` selects for an env with these spaces."""
    needs_torch = beyond_native(config, spec)
    if config.train.learner == "auto":
        return Choice("torch", needs_torch) if needs_torch else Choice("native", "")
    if config.train.learner == "native" and needs_torch:
        raise ConfigError(
            f"train.learner is native, but {needs_torch}, which only the torch learner does: "
            f"set train.learner=torch ({_INSTALL}), or leave that out"
        )
    return Choice(config.train.learner, "")


def beyond_native(config: Config, spec: EnvSpec) -> str | None:
    """Return the part of a config that the native learner does not support, if there is one."""
    policy = policy_spec(config.policy, spec.observation)
    if isinstance(policy, ModuleSpec):
        return f"policy.module is {policy.module}"
    if policy.convolutions:
        return "policy.encoder is cnn" if config.policy.encoder == "cnn" else "policy.encoder auto is cnn for images"
    if config.torch.device not in ("auto", "cpu"):
        return f"torch.device is {config.torch.device}"
    if config.torch.losses:
        return f"torch.losses has {config.torch.losses[0]}"
    return None


def build(
    config: Config, spec: EnvSpec, rows: int, *, attempt: int = 0, num_threads: int | None = None
) -> _core.PpoLearner | TorchLearner:
    """Build the learner of a run, with initial weights, for an env with these spaces."""
    if choose(config, spec).name == "native":
        return build_native(config, spec, rows, attempt=attempt, num_threads=num_threads)
    return torch_learner()(
        spec,
        policy_spec(config.policy, spec.observation),
        config.torch,
        minibatch_size=config.ppo.minibatch_size,
        **_arguments(config, rows, attempt, num_threads),
    )


def build_native(
    config: Config, spec: EnvSpec, rows: int, *, attempt: int = 0, num_threads: int | None = None
) -> _core.PpoLearner:
    """Build the native learner of a run, with initial weights, for an env with these spaces."""
    policy = policy_spec(config.policy, spec.observation).to_json()
    return _core.PpoLearner(spec.to_json(), None, policy, **_arguments(config, rows, attempt, num_threads))


def _arguments(config: Config, rows: int, attempt: int, num_threads: int | None) -> dict[str, Any]:
    """Return the arguments that both learners take."""
    return {
        "rows": rows,
        "horizon": config.ppo.horizon,
        "sequence_length": config.ppo.sequence_length,
        "seed": config.train.seed,
        "attempt": attempt,
        "num_threads": num_threads or config.runner.num_threads,
        "normalize_observations": config.ppo.normalize_observations,
        "normalize_rewards": config.ppo.normalize_rewards,
    }


def build_actor(spec: EnvSpec, policy: PolicySpec, normalize: bool) -> _core.PpoLearner | TorchLearner:
    """Build a policy that only acts: native if possible."""
    if not policy.native:
        from hotloop.config.models import TorchConfig

        return torch_learner()(
            spec,
            policy,
            TorchConfig(device="cpu"),
            rows=1,
            horizon=1,
            seed=0,
            num_threads=1,
            normalize_observations=normalize,
        )
    return _core.PpoLearner(
        spec.to_json(),
        None,
        policy.to_json(),
        rows=1,
        horizon=1,
        seed=0,
        num_threads=1,
        normalize_observations=normalize,
    )


def torch_learner() -> type[TorchLearner]:
    """Import the torch learner."""
    try:
        from hotloop.ppo.torch.learner import TorchLearner
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ConfigError(f"this needs the torch learner, but PyTorch is not installed: {_INSTALL}") from None
    return TorchLearner
