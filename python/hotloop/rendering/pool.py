"""Rendering of the envs of a native pool, in one of the render modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hotloop.envs.scene import scenes
from hotloop.rendering import MODES, as_picture, as_text, check_mode, pace

if TYPE_CHECKING:
    from hotloop import _core


class PoolRenderer:
    """Renders every env of a pool.

    Args:
        env: The env's name.
        mode: `"ansi"` for text, `"rgb_array"` for pixels, or none to render nothing.
    """

    modes: Sequence[str] = MODES

    def __init__(self, env: str, mode: str | None = None) -> None:
        check_mode(env, mode)
        self.mode = mode
        self.fps = pace(env)
        self._env = env

    def render(self, pool: _core.Pool, options: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return a frame per env; `None` without a mode."""
        if self.mode is None:
            return None
        show = as_text if self.mode == "ansi" else as_picture
        return tuple(show(scene) for scene in scenes(self._env, pool, options))
