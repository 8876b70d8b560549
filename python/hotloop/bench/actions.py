"""Random actions made before the clock starts, for us and for peers alike."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Array = NDArray[Any]


def batches_for(rows: int) -> int:
    """Return the number of action batches to cycle through: few if they are large, so that they stay in cache."""
    return 16 if rows <= 8192 else 4


def random_actions(space: spaces.Space[Any], rows: int, count: int, seed: int = 0) -> list[Array]:
    """Return `count` batches of random actions for `rows` rows; hybrid ones as rows of choices, then real numbers."""
    rng = np.random.default_rng(seed)
    if isinstance(space, spaces.Tuple):
        parts = [random_actions(part, rows, count, seed + i) for i, part in enumerate(space)]
        return [np.concatenate(batch, axis=1, dtype=np.float32) for batch in zip(*parts, strict=True)]
    if isinstance(space, spaces.Discrete):
        return [rng.integers(0, space.n, rows) for _ in range(count)]
    if isinstance(space, spaces.MultiDiscrete):
        return [rng.integers(0, space.nvec, (rows, *space.shape)) for _ in range(count)]
    if isinstance(space, spaces.Box):
        shape = (rows, *space.shape)
        return [rng.uniform(space.low, space.high, shape).astype(space.dtype) for _ in range(count)]
    raise TypeError(f"no random actions for {space}")


def legal_actions(space: spaces.Space[Any], mask: Array, rng: np.random.Generator) -> Array:
    """Return one batch of legal actions, uniformly distributed."""
    if isinstance(space, spaces.Discrete):
        return _legal_choices(mask, rng)
    if isinstance(space, spaces.MultiDiscrete):
        sets = np.split(mask, np.cumsum(space.nvec)[:-1], axis=1)
        return np.stack([_legal_choices(part, rng) for part in sets], axis=1)
    if isinstance(space, spaces.Tuple):
        (reals,) = random_actions(space[1], len(mask), 1, int(rng.integers(2**32)))
        return np.concatenate([legal_actions(space[0], mask, rng), reals], axis=1, dtype=np.float32)
    raise TypeError(f"no masked actions for {space}")


def _legal_choices(mask: Array, rng: np.random.Generator) -> Array:
    choices: Array = np.argmax(rng.random(mask.shape) * (mask != 0), axis=1)
    return choices
