"""Descriptions of policies: checkpoints keep them, and learners build networks from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.config import PolicyConfig
    from hotloop.envs.spec import Observation

# Smallest side of an image in pixels; smaller grids use dense layers unless the config selects a cnn.
_PICTURE: Final = 16
# Mnih et al. 2015, the usual network for Atari games; the smallest side that it leaves something of.
_NATURE: Final = ((32, 8, 4, 0), (64, 4, 2, 0), (64, 3, 1, 0))
_LARGE: Final = 36
_SMALL: Final = ((16, 3, 1), (32, 3, 2))


def description(policy: PolicyConfig, observation: Observation) -> dict[str, Any]:
    """Return the description that learners build a policy from and that a checkpoint's manifest keeps."""
    if policy.module is not None:
        return {"module": policy.module, "module_options": dict(policy.module_options)}
    values = native_description(policy)
    if takes_cnn(policy, observation):
        layers = policy.convolutions or default_convolutions(observation.shape)
        values |= {"encoder": "cnn", "convolutions": [list(layer) for layer in layers]}
    return values


def default_convolutions(shape: tuple[int, ...]) -> Sequence[Sequence[int]]:
    """Return the convolutional layers for observations of this shape: those of the Nature DQN for large images."""
    return _NATURE if min(sorted(shape)[-2:]) >= _LARGE else _SMALL


def padding(layer: Sequence[int]) -> int:
    """Return the padding of a convolutional layer: its fourth number, else half the kernel size."""
    return layer[3] if len(layer) > 3 else layer[1] // 2


def native_description(policy: PolicyConfig) -> dict[str, Any]:
    """Return the description that the native learner builds a policy from."""
    values = {
        "hidden": list(policy.hidden),
        "activation": policy.activation,
        "shared": policy.shared,
        "embedding": policy.embedding,
        "log_std": policy.log_std,
    }
    if policy.memory != "none":
        names = ("memory", "memory_size", "memory_layers")
        values |= {name: getattr(policy, name) for name in names}
    return values


def takes_cnn(policy: PolicyConfig, observation: Observation) -> bool:
    """Return whether the policy has a convolutional encoder."""
    shape = list(observation.shape)
    if policy.encoder == "cnn" and len(shape) not in (2, 3):
        seen = f"have shape {shape}" if shape else f"are one of {observation.states} states"
        raise ConfigError(
            f"policy.encoder is cnn, but observations {seen}: a cnn needs grids (two axes) or images (three axes); "
            "set policy.encoder=mlp"
        )
    if policy.encoder != "auto":
        return policy.encoder == "cnn"
    return len(shape) == 3 and sorted(shape)[1] >= _PICTURE
