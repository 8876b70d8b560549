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
    """What each seat did in the step that led here; `None` at the start of an episode, or if it is not known."""

    def number(self, field: str) -> float:
        """A field of the state that is one number."""
        return float(self.state[field].item())

    def whole(self, field: str) -> int:
        """A field of the state that is one whole number."""
        return int(self.state[field].item())


class TextRenderer(Protocol):
    """The way an env with code of its own shows itself."""

    def text(self, scene: Scene) -> str:
        """Return the scene as text."""


def scenes(
    env: str, pool: _core.Pool, options: Mapping[str, Any], actions: NDArray[Any] | None = None, *, seats: int = 1
) -> list[Scene]:
    """Every env of a pool; `actions` has an entry per row."""
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
