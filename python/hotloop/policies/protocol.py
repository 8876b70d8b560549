"""The interface of everything that acts on batches: networks and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class BatchPolicy(Protocol):
    """Chooses actions for a batch of observations."""

    @property
    def memory_len(self) -> int:
        """Size of the recurrent state of a row; 0 without memory."""

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
        """Return the actions, and two values that depend on the kind of policy (log-probabilities and values)."""
