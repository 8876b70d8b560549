"""The interface of policies that act on batches: native and torch policies, and tables."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class ActRequest:
    """A batch of rows to act on."""

    obs: ArrayLike
    """Observations, one per row."""
    mask: NDArray[np.int8] | None = None
    """Action masks; `None` allows every action."""
    _: KW_ONLY
    deterministic: bool
    """Whether to take the most probable action; otherwise actions are sampled."""
    seed: int = 0
    """Seed of the action noise, which is keyed by seed, row and step."""
    step: int = 0
    """Time step."""
    first_row: int = 0
    """Index of the first row among all rows of an evaluation."""
    state: NDArray[np.float32] | None = None
    """Recurrent state `[rows, memory_len]`, zeros at the start of an episode, updated in place; `None` is zeros."""
    valid: NDArray[np.bool_] | None = None
    """Which rows decide: the others keep their recurrent state. `None`: all of them."""


class BatchPolicy(Protocol):
    """A policy that acts on batches."""

    @property
    def memory_len(self) -> int:
        """Numbers per recurrent state; 0 for policies without one."""

    def act(self, request: ActRequest, /) -> tuple[NDArray[Any], Any, Any]:
        """Return actions, log-probabilities and values; tables return `None` for the last two."""
