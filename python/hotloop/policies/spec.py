"""Policy specs: what learners build a policy from, and what a checkpoint's manifest keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from hotloop.config import PolicyConfig
    from hotloop.envs.spec import Observation

# Smallest side of an image in pixels; smaller grids use dense layers unless the config selects a cnn.
_PICTURE: Final = 16
# Mnih et al. 2015, the usual network for Atari games; the smallest side that it leaves something of.
_NATURE: Final = ((32, 8, 4, 0), (64, 4, 2, 0), (64, 3, 1, 0))
_LARGE: Final = 36
_SMALL: Final = ((16, 3, 1), (32, 3, 2))


@dataclass(frozen=True)
class NetworkSpec:
    """A network of the built-in layers."""

    hidden: tuple[int, ...]
    """Sizes of the dense layers."""
    activation: str = "tanh"
    shared: bool = True
    """Whether policy and value function share all layers but the heads."""
    embedding: int = 0
    """Embedding size of discrete observations; 0 for one-hot vectors."""
    log_std: float = 0.0
    """Initial log standard deviation of continuous actions."""
    memory: str = "none"
    """Recurrent layers after the dense ones: `none`, `lstm` or `gru`."""
    memory_size: int = 0
    memory_layers: int = 0
    convolutions: tuple[tuple[int, ...], ...] = ()
    """Channels, kernel size, stride and, if it is not the default, padding of each convolutional layer."""

    @property
    def native(self) -> bool:
        """Whether the native learner can build it."""
        return not self.convolutions

    @property
    def dense_part(self) -> Self:
        """The network without its convolutions."""
        return type(self)(**{**vars(self), "convolutions": ()})

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the spec that `to_json` was called on."""
        given = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        given["hidden"] = tuple(given["hidden"])
        given["convolutions"] = tuple(map(tuple, given.get("convolutions", ())))
        return cls(**given)

    def to_json(self) -> dict[str, Any]:
        """Return the form that manifests keep and the core reads."""
        values: dict[str, Any] = {
            "hidden": list(self.hidden),
            "activation": self.activation,
            "shared": self.shared,
            "embedding": self.embedding,
            "log_std": self.log_std,
        }
        if self.memory != "none":
            values |= {"memory": self.memory, "memory_size": self.memory_size, "memory_layers": self.memory_layers}
        if self.convolutions:
            values |= {"encoder": "cnn", "convolutions": [list(layer) for layer in self.convolutions]}
        return values


@dataclass(frozen=True)
class ModuleSpec:
    """A user's torch module."""

    module: str
    """Its import path, `package.module:Class`."""
    module_options: Mapping[str, Any]

    native = False

    def to_json(self) -> dict[str, Any]:
        """Return the form that manifests keep."""
        return {"module": self.module, "module_options": dict(self.module_options)}


PolicySpec = NetworkSpec | ModuleSpec


def policy_spec(policy: PolicyConfig, observation: Observation) -> PolicySpec:
    """Return the spec of the policy that a config asks for, for these observations."""
    if policy.module is not None:
        return ModuleSpec(policy.module, dict(policy.module_options))
    has_memory = policy.memory != "none"
    layers: Sequence[Sequence[int]] = ()
    if takes_cnn(policy, observation):
        layers = policy.convolutions or default_convolutions(observation.shape)
    return NetworkSpec(
        hidden=tuple(policy.hidden),
        activation=policy.activation,
        shared=policy.shared,
        embedding=policy.embedding,
        log_std=policy.log_std,
        memory=policy.memory,
        memory_size=policy.memory_size if has_memory else 0,
        memory_layers=policy.memory_layers if has_memory else 0,
        convolutions=tuple(map(tuple, layers)),
    )


def policy_spec_from_json(values: Mapping[str, Any]) -> PolicySpec:
    """Return the spec that a manifest keeps."""
    if "module" in values:
        return ModuleSpec(values["module"], values.get("module_options", {}))
    return NetworkSpec.from_json(values)


def default_convolutions(shape: tuple[int, ...]) -> Sequence[Sequence[int]]:
    """Return the convolutional layers for observations of this shape: those of the Nature DQN for large images."""
    return _NATURE if min(sorted(shape)[-2:]) >= _LARGE else _SMALL


def padding(layer: Sequence[int]) -> int:
    """Return the padding of a convolutional layer: its fourth number, else half the kernel size."""
    return layer[3] if len(layer) > 3 else layer[1] // 2


def takes_cnn(policy: PolicyConfig, observation: Observation) -> bool:
    """Return whether the policy has a convolutional encoder."""
    shape = observation.shape
    if policy.encoder == "cnn" and len(shape) not in (2, 3):
        given = f"have shape {list(shape)}" if shape else f"are one of {observation.states} states"
        raise ConfigError(
            f"policy.encoder is cnn, but observations {given}: a cnn needs grids (two axes) or images (three axes); "
            "set policy.encoder=mlp"
        )
    if policy.encoder != "auto":
        return policy.encoder == "cnn"
    return len(shape) == 3 and sorted(shape)[1] >= _PICTURE
