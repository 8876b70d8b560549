"""Envs as text and as pictures, drawn from the named fields of their state.

Each env has a file of its own in `hotloop.rendering.envs`, named like the env; `docs/play.md` says what goes into it.
An env without one is shown as a list of its fields.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from hotloop.errors import RenderError
from hotloop.rendering.scene import Scene

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hotloop.rendering.drawing import Drawing

MODES: Final = ("ansi", "rgb_array")
# Steps per second at which an env is shown that does not say how fast it is to be watched.
_PACE: Final = 4.0


class Renderer(Protocol):
    """What a file in `hotloop.rendering.envs` may define; all of it is optional."""

    ACTIONS: Sequence[str]
    """What the choices of a discrete action are called."""
    PACE: float
    """Steps per second at which it is good to watch."""

    def draw(self, scene: Scene) -> Drawing:
        """The picture; every one of an episode must have the same size."""

    def text(self, scene: Scene) -> str:
        """The same in characters; without it, the picture is made of dots."""


def renderer(env: str) -> Renderer | None:
    """The env's own way of being shown, if it has one."""
    if ":" in env:
        from hotloop.envs import loader

        return loader.renderer(env)
    name = f"hotloop.rendering.envs.{env.replace('-', '_')}"
    try:
        module: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
    found: Renderer = module
    return found


def has_picture(env: str) -> bool:
    """Whether the env can be drawn, and not only told in words."""
    return hasattr(renderer(env), "draw")


def check_mode(env: str, mode: str | None) -> None:
    """Refuses a render mode that there is not, or that the env does not have."""
    if mode is not None and mode not in MODES:
        raise RenderError(f"render_mode is {mode!r}: expected one of {', '.join(map(repr, MODES))}, or None")
    if mode == "rgb_array" and not has_picture(env):
        raise RenderError(f"render_mode is {mode!r}: {env} has no picture, only text ('ansi')")


def pace(env: str) -> float:
    """Steps per second at which the env is good to watch."""
    return float(getattr(renderer(env), "PACE", _PACE))


def as_text(scene: Scene) -> str:
    """The scene in characters."""
    module = renderer(scene.env)
    if module is not None and hasattr(module, "text"):
        return module.text(scene)
    if module is not None and hasattr(module, "draw"):
        from hotloop.rendering.dots import dots

        return dots(module.draw(scene))
    return "\n".join(f"{name}  {' '.join(map(str, values.ravel()))}" for name, values in scene.state.items())


def as_picture(scene: Scene) -> NDArray[np.uint8]:
    """The scene in pixels: height, width, and red, green and blue."""
    module = renderer(scene.env)
    if module is None or not hasattr(module, "draw"):
        raise RenderError(f"{scene.env} has no picture, only text")
    from hotloop.rendering.pixels import pixels

    return pixels(module.draw(scene))


def action_text(env: str, action: NDArray[Any]) -> str:
    """One seat's action in words."""
    names = getattr(renderer(env), "ACTIONS", ())
    if action.dtype.kind == "f":
        return " ".join(f"{amount:+.2f}" for amount in action.ravel())
    if action.ndim == 0 and int(action) < len(names):
        return str(names[int(action)])
    return " ".join(map(str, action.ravel()))
