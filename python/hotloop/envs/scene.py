"""Scenes: the state of one env at one moment, as renderers read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop import _core


@dataclass(frozen=True)
class Scene:
    """One env at one moment."""

    env: str
    options: Mapping[str, Any]
    """All options of the env, with their values."""
    state: Mapping[str, NDArray[Any]]
    """The fields of its state; `elapsed_steps` is among them."""
    actions: NDArray[Any] | None = None
    """Actions of the last step, by seat; `None` at the start of an episode, or if they are not known."""

    def number(self, field: str) -> float:
        """Return a scalar field of the state as a float."""
        return float(self.state[field].item())

    def whole(self, field: str) -> int:
        """Return a scalar field of the state as an int."""
        return int(self.state[field].item())


class TextRenderer(Protocol):
    """The renderer of an env from a user's file."""

    def text(self, scene: Scene) -> str:
        """Return the scene as text."""


def scenes(
    env: str, pool: _core.Pool, options: Mapping[str, Any], actions: NDArray[Any] | None = None, *, seats: int = 1
) -> list[Scene]:
    """Return the scene of every env of a pool; `actions` has an entry per row."""
    state = pool.get_state()
    count = len(next(iter(state.values())))
    return [
        Scene(
            env,
            options,
            {name: values[i] for name, values in state.items()},
            None if actions is None else actions[i * seats : (i + 1) * seats],
        )
        for i in range(count)
    ]
