"""A table that acts, in the manner of a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop import _core
from hotloop.errors import CheckpointError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]


class TablePlayer:
    """Takes the best known action; drawn actions are drawn from equally good ones."""

    def __init__(self, table: _core.QTable) -> None:
        self.table = table

    @property
    def memory_len(self) -> int:
        """A table remembers nothing of a row."""
        return 0

    def act(
        self,
        obs: NDArray[Any],
        mask: NDArray[np.int8] | None = None,
        *,
        deterministic: bool,
        seed: int = 0,
        step: int = 0,
        first_row: int = 0,
        memory: NDArray[np.float32] | None = None,
        valid: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], None, None]:
        """Actions for a batch of states."""
        drawn = None if deterministic else hash((seed, step, first_row)) % 2**64
        states = np.ascontiguousarray(obs, np.int64)
        allowed = None if mask is None else np.ascontiguousarray(mask, np.int8)
        return self.table.act(states, allowed, drawn), None, None


def to_arrays(table: _core.QTable) -> Arrays:
    """Return the arrays that a checkpoint stores."""
    arrays: Arrays = dict(table.arrays())
    if table.half:
        arrays["values"] = arrays["values"].view(np.float16)
    return arrays


def from_arrays(arrays: Arrays, description: dict[str, Any]) -> _core.QTable:
    """The table that a checkpoint kept."""
    plain = {name: array.view(np.uint16) if array.dtype == np.float16 else array for name, array in arrays.items()}
    try:
        return _core.QTable(description["states"], description["actions"], description["initial_value"], plain)
    except ValueError as error:
        raise CheckpointError(f"this is no table of that kind: {error}") from None
