"""A policy described by data: what checkpoints keep, and what a learner builds it from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotloop.config import PolicyConfig


def native_description(policy: PolicyConfig) -> dict[str, Any]:
    """What the native learner builds a policy from."""
    described = {
        "hidden": list(policy.hidden),
        "activation": policy.activation,
        "shared": policy.shared,
        "embedding": policy.embedding,
        "log_std": policy.log_std,
    }
    if policy.memory != "none":
        names = ("memory", "memory_size", "memory_layers")
        described |= {name: getattr(policy, name) for name in names}
    return described
