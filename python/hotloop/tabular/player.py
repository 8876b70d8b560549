"""A Q-table with the interface of a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop import _core
from hotloop.errors import CheckpointError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.policies.protocol import ActRequest

    Arrays = dict[str, NDArray[Any]]


class TablePlayer:
    """The greedy policy of a table; sampled actions are sampled among equally good ones."""

    def __init__(self, table: _core.QTable) -> None:
        self.table = table

    @property
    def memory_len(self) -> int:
        """0: a table has no recurrent state."""
        return 0

    def act(self, request: ActRequest) -> tuple[NDArray[np.int64], None, None]:
        """Return the actions for a batch of states."""
        key = (request.seed, request.step, request.first_row)
        seed = None if request.deterministic else hash(key) % 2**64
        states = np.ascontiguousarray(request.obs, np.int64)
        mask = None if request.mask is None else np.ascontiguousarray(request.mask, np.int8)
        return self.table.act(states, mask, seed), None, None


def to_arrays(table: _core.QTable) -> Arrays:
    """Return the arrays that a checkpoint stores."""
    arrays: Arrays = dict(table.arrays())
    if table.half:
        arrays["values"] = arrays["values"].view(np.float16)
    return arrays


def from_arrays(arrays: Arrays, description: dict[str, Any]) -> _core.QTable:
    """Return the table that a checkpoint stores."""
    plain = {name: array.view(np.uint16) if array.dtype == np.float16 else array for name, array in arrays.items()}
    try:
        return _core.QTable(description["states"], description["actions"], description["initial_value"], plain)
    except ValueError as error:
        raise CheckpointError(f"the arrays do not fit the table that is described: {error}") from None
