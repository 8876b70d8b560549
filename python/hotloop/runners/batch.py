"""The result of `recv`: the rows of the groups that were ready first."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Batch(NamedTuple):
    """The rows of one or several groups after a step, group by group in the order of arrival.

    The arrays of a single group, or of adjacent groups in order, are views of the memory that the groups write to: they
    are valid until one of these groups is sent again. Other batches are copies.
    """

    obs: NDArray[Any]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    info: dict[str, Any]
    groups: tuple[int, ...]
    rows: NDArray[np.int64]
    """Indices of these rows among the runner's."""
