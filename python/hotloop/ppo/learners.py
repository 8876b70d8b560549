"""Which learner trains a policy, how it is built, and what both kinds have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hotloop import _core
from hotloop.errors import ConfigError
from hotloop.policies.spec import description, native_description, takes_cnn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hotloop.config import Config
    from hotloop.envs.spec import EnvSpec
    from hotloop.ppo.torch.learner import TorchLearner

    Floats = NDArray[np.float32]
    Arrays = dict[str, NDArray[Any]]

_INSTALL = "pip install 'hotloop[torch]'"


class Learner(Protocol):
    """A policy that learns: what the native and the torch learner both do. `_core.pyi` has the details."""

    @property
    def num_threads(self) -> int: ...  # noqa: D102
    @property
    def parameters(self) -> int: ...  # noqa: D102
    @property
    def memory_len(self) -> int: ...  # noqa: D102
    @property
    def notes(self) -> Sequence[str]: ...  # noqa: D102
    def conditions(self) -> dict[str, Any]: ...  # noqa: D102
    def changed_since(self, kept: Mapping[str, Any]) -> list[str]: ...  # noqa: D102
    def iterate(self, pool: _core.Pool, settings: dict[str, Any], count: int, seconds: float) -> dict[str, Any]: ...  # noqa: D102
    def collect(self, pool: _core.Pool, settings: dict[str, Any]) -> None: ...  # noqa: D102
    def advantages(self, settings: dict[str, Any]) -> None: ...  # noqa: D102
    def update(self, settings: dict[str, Any]) -> dict[str, Any]: ...  # noqa: D102
    def gradient(self, settings: dict[str, Any]) -> tuple[dict[str, Floats], dict[str, float]]: ...  # noqa: D102
    def rollout(self) -> Arrays: ...  # noqa: D102
    def act_slot(self, slot: int, rows: tuple[int, int], iteration: int) -> NDArray[Any]: ...  # noqa: D102
    def end_episodes(self, slot: int, rows: tuple[int, int]) -> None: ...  # noqa: D102
    def act(  # noqa: D102
        self,
        obs: ArrayLike,
        mask: NDArray[np.int8] | None = None,
        *,
        deterministic: bool,
        seed: int = 0,
        step: int = 0,
        first_row: int = 0,
        memory: Floats | None = None,
        valid: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], Floats, Floats]: ...
    def value_of(self, obs: ArrayLike, rows: Sequence[int] | NDArray[np.intp] | None = None) -> Floats: ...  # noqa: D102
    def arrays(self) -> dict[str, Floats]: ...  # noqa: D102
    def set_arrays(self, arrays: dict[str, Floats]) -> None: ...  # noqa: D102
    def statistics(self) -> dict[str, NDArray[np.float64]]: ...  # noqa: D102
    def state(self) -> Arrays: ...  # noqa: D102
    def set_state(self, state: Arrays) -> None: ...  # noqa: D102
    def set_opponents(self, policies: list[tuple[dict[str, Any], Arrays, Arrays]]) -> None: ...  # noqa: D102


class Choice(NamedTuple):
    """A learner, and why it was taken."""

    name: str
    why: str


def choose(config: Config, spec: EnvSpec) -> Choice:
    """The learner that `train.learner` stands for, for an env with these spaces."""
    needs_torch = beyond_native(config, spec)
    if config.train.learner == "auto":
        return Choice("torch", needs_torch) if needs_torch else Choice("native", "it serves this policy on the CPU")
    if config.train.learner == "native" and needs_torch:
        raise ConfigError(
            f"train.learner is native, but {needs_torch}, which only the torch learner does: "
            f"set train.learner=torch ({_INSTALL}), or leave that out"
        )
    return Choice(config.train.learner, "train.learner names it")


def beyond_native(config: Config, spec: EnvSpec) -> str | None:
    """What a config asks for that the native learner does not do, in words."""
    if config.policy.module is not None:
        return f"policy.module is {config.policy.module}"
    if takes_cnn(config.policy, spec.observation):
        return "policy.encoder is cnn" if config.policy.encoder == "cnn" else "policy.encoder auto is cnn for pictures"
    if config.torch.device not in ("auto", "cpu"):
        return f"torch.device is {config.torch.device}"
    if config.torch.losses:
        return f"torch.losses has {config.torch.losses[0]}"
    return None


def build(
    config: Config, spec: EnvSpec, rows: int, *, attempt: int = 0, num_threads: int | None = None
) -> _core.PpoLearner | TorchLearner:
    """The learner of a run, with its first weights, for an env with these spaces."""
    if choose(config, spec).name == "native":
        return build_native(config, spec, rows, attempt=attempt, num_threads=num_threads)
    return torch_learner()(
        spec,
        description(config.policy, spec.observation),
        config.torch,
        rows=rows,
        horizon=config.ppo.horizon,
        sequence_length=config.ppo.sequence_length,
        minibatch_size=config.ppo.minibatch_size,
        seed=config.train.seed,
        attempt=attempt,
        num_threads=num_threads or config.runner.num_threads,
        normalize_observations=config.ppo.normalize_observations,
        normalize_rewards=config.ppo.normalize_rewards,
    )


def build_native(
    config: Config, spec: EnvSpec, rows: int, *, attempt: int = 0, num_threads: int | None = None
) -> _core.PpoLearner:
    """The native learner of a run, with its first weights, for an env with these spaces."""
    return _core.PpoLearner(
        spec.to_json(),
        None,
        native_description(config.policy),
        rows=rows,
        horizon=config.ppo.horizon,
        sequence_length=config.ppo.sequence_length,
        seed=config.train.seed,
        attempt=attempt,
        num_threads=num_threads or config.runner.num_threads,
        normalize_observations=config.ppo.normalize_observations,
        normalize_rewards=config.ppo.normalize_rewards,
    )


def build_player(spec: EnvSpec, policy: dict[str, Any], normalize: bool) -> _core.PpoLearner | TorchLearner:
    """A policy that only acts: native if it can be."""
    if "module" in policy or "encoder" in policy:
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
        spec.to_json(), None, policy, rows=1, horizon=1, seed=0, num_threads=1, normalize_observations=normalize
    )


def torch_learner() -> type[TorchLearner]:
    """The torch learner, if torch is there."""
    try:
        from hotloop.ppo.torch.learner import TorchLearner
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ConfigError(f"this needs the torch learner, but PyTorch is not installed: {_INSTALL}") from None
    return TorchLearner
