"""What acts on batches: a native policy, or a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class BatchPolicy(Protocol):
    """Gives actions for observations; what else it gives depends on what it is."""

    @property
    def memory_len(self) -> int:
        """How many numbers it remembers of a row."""

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
    ) -> tuple[NDArray[Any], Any, Any]:
        """Actions first."""
