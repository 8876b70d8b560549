"""Text and image rendering of envs, from the named fields of their state.

Each env has a file of its own in `hotloop.rendering.envs`, named like the env; `docs/play.md` says what goes into it.
An env without one is shown as a list of its fields.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from hotloop.envs.scene import Scene
from hotloop.errors import RenderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hotloop.rendering.drawing import Drawing, Point

MODES: Final = ("ansi", "rgb_array")
# Default steps per second for watching an env.
_PACE: Final = 4.0


class Renderer(Protocol):
    """Interface of the modules in `hotloop.rendering.envs`; every part is optional."""

    ACTIONS: Sequence[str]
    """Names of discrete actions."""
    PACE: float
    """Default steps per second for watching."""

    def draw(self, scene: Scene) -> Drawing:
        """Draw a scene; all drawings of an episode have the same size."""

    def seats(self, scene: Scene) -> Sequence[Point]:
        """Return where each seat is in the drawing, so that a display can follow one."""

    def text(self, scene: Scene) -> str:
        """Render a scene as text; the default draws it with braille dots."""


def renderer(env: str) -> Renderer | None:
    """Return the env's renderer, if it has one."""
    if ":" in env:
        from hotloop.envs import loader

        return cast("Renderer | None", loader.renderer(env))
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
    """Return whether the env supports images, not only text."""
    return hasattr(renderer(env), "draw")


def check_mode(env: str, mode: str | None) -> None:
    """Reject an unknown render mode, or one that the env lacks."""
    if mode is not None and mode not in MODES:
        raise RenderError(f"render_mode is {mode!r}: expected one of {', '.join(map(repr, MODES))}, or None")
    if mode == "rgb_array" and not has_picture(env):
        raise RenderError(f"render_mode is {mode!r}: {env} renders text only ('ansi')")


def pace(env: str) -> float:
    """Return the default steps per second for watching the env."""
    return float(getattr(renderer(env), "PACE", _PACE))


def as_text(scene: Scene) -> str:
    """Render a scene as text."""
    module = renderer(scene.env)
    if module is not None and hasattr(module, "text"):
        return module.text(scene)
    if module is not None and hasattr(module, "draw"):
        from hotloop.rendering.dots import dots

        return dots(module.draw(scene))
    return "\n".join(f"{name}  {' '.join(map(str, values.ravel()))}" for name, values in scene.state.items())


def as_picture(scene: Scene) -> NDArray[np.uint8]:
    """Render a scene as an RGB array of shape (height, width, 3)."""
    module = renderer(scene.env)
    if module is None or not hasattr(module, "draw"):
        raise RenderError(f"{scene.env} renders text only")
    from hotloop.rendering.pixels import pixels

    return pixels(module.draw(scene))


def action_text(env: str, action: NDArray[Any]) -> str:
    """Format one seat's action."""
    names = getattr(renderer(env), "ACTIONS", ())
    if action.dtype.kind == "f":
        return " ".join(f"{value:+.2f}" for value in action.ravel())
    if action.ndim == 0 and int(action) < len(names):
        return str(names[int(action)])
    return " ".join(map(str, action.ravel()))
