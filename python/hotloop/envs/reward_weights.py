"""Weights of the reward terms of native envs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop import _core


def reward_weights(pool: _core.Pool, terms: Sequence[str]) -> dict[str, float]:
    """Return the weight of each reward term."""
    return dict(zip(terms, pool.weights(), strict=True))


def set_reward_weights(pool: _core.Pool, terms: Sequence[str], weights: Mapping[str, float]) -> None:
    """Set the weights of the named terms, from the next step on; the others stay.

    Raises:
        ValueError: The envs have no such term.
    """
    for name in weights:
        if name not in terms:
            raise ValueError(f"there is no reward term {name!r}: expected {' or '.join(terms)}")
    pool.set_weights(list((reward_weights(pool, terms) | dict(weights)).values()))
