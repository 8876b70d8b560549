"""A Python env in this process for watching, with text, image or no rendering."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hotloop.errors import EnvError, RenderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.envs.spec import EnvSpec

TEXT: Final = "ansi"
PICTURE: Final = "rgb_array"
# Longer observations are summarised.
_READABLE: Final = 64
_PACKAGE: Final = str(Path(__file__).parents[1])


class LocalEnv:
    """One Python env. Its episodes equal those of any runner with the same seed and index.

    Args:
        env: `gymnasium:ID`, `module:factory` and the like.
        options: Keyword arguments of its factory.
        index: The env's index among others with the same seed.
        render_mode: Render mode to make it with, if it takes one.
        wrap: Wrappers, as in the config's section `wrap`.
    """

    def __init__(
        self,
        env: str,
        options: Mapping[str, Any],
        *,
        index: int = 0,
        render_mode: str | None = None,
        wrap: Mapping[str, Any] | None = None,
    ) -> None:
        from hotloop.runners.processes import ProcessRunner

        # No window is needed, and pygame's greeting would end up in the output.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        if not os.environ.get("DISPLAY"):
            # MuJoCo draws through GLFW by default, which needs a display.
            os.environ.setdefault("MUJOCO_GL", "egl")
        self._name = env
        self.options: Mapping[str, Any] = dict(options)
        """The options that it was made with."""
        self._steps = 0
        arguments = self.options if render_mode is None else {**self.options, "render_mode": render_mode}
        with _explaining(f"{env} cannot be made"):
            self._runner = ProcessRunner(
                env,
                1,
                num_workers=0,
                options=arguments,
                first_env=index,
                autoreset_mode="disabled",
                wrap=wrap,
                for_policy=True,
            )
        (adapted,) = self._runner.local_envs()
        self.env = adapted.env
        """The env itself."""

    @property
    def spec(self) -> EnvSpec:
        """The env's spec."""
        return self._runner.env_spec

    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weight of the env's reward, the only reward term."""
        self._runner.set_reward_weights(weights)

    def reset(self, seed: int) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start the first episode of this seed."""
        with _explaining(f"{self._name} failed in its reset"):
            obs, info = self._runner.reset(seed=seed)
        self._obs: NDArray[Any] = obs
        return obs, info

    def step(self, actions: Any) -> tuple[NDArray[Any], NDArray[np.float32], Any, Any, dict[str, Any]]:
        """Step with one action per seat."""
        self._steps += 1
        with _explaining(f"{self._name} failed in step {self._steps}"):
            result = self._runner.step(actions)
        self._obs = result[0]
        return result

    def text(self) -> str:
        """Return the env's text rendering, or its observations if it has none."""
        if getattr(self.env, "render_mode", None) != TEXT:
            return "\n".join(map(_format_observation, self._obs))
        with _explaining(f"{self._name} cannot be shown"):
            shown = self.env.render()
        return (shown.getvalue() if isinstance(shown, io.StringIO) else str(shown)).strip("\n")

    def picture(self) -> NDArray[np.uint8]:
        """Render as an RGB array of shape (height, width, 3)."""
        with _explaining(f"{self._name} cannot be drawn"):
            drawn = self.env.render()
        picture = np.asarray(drawn)
        if picture.ndim != 3 or picture.shape[2] not in (3, 4) or picture.dtype != np.uint8:
            what = type(drawn).__name__ if picture.ndim == 0 else f"{picture.dtype} of shape {picture.shape}"
            raise RenderError(f"the render() of {self._name} gave {what}: expected uint8 of height x width x 3")
        return np.ascontiguousarray(picture[:, :, :3])

    def close(self) -> None:
        """Close the env."""
        self._runner.close()


@dataclass(frozen=True)
class RenderModes:
    """An env's spec and render modes."""

    env: str
    spec: EnvSpec
    modes: tuple[str, ...]
    """Render modes in its metadata."""
    mode: str | None
    """Its default render mode."""
    takes_mode: bool
    """Whether its factory accepts render_mode."""
    pace: float | None
    """Steps per second from its metadata, if any."""

    def can(self, mode: Literal["ansi", "rgb_array"]) -> bool:
        """Return whether it supports a render mode."""
        return self.mode == mode or (self.takes_mode and mode in self.modes)

    def picture_refused(self) -> str:
        """Explain why there is no image rendering and how to get it."""
        if PICTURE in self.modes:
            factory = self.env.rpartition(":")[2]
            return (
                f"{self.env} can render images, but {factory} takes no render_mode: add that parameter and pass it "
                f"on to the env, or make the env with render_mode={PICTURE!r}"
            )
        if self.can(TEXT):
            return f"{self.env} renders text only: leave out --video"
        return f"{self.env} renders no images (its metadata lists no render mode {PICTURE!r}): leave out --video"

    def text_refused(self) -> str:
        """Explain why observations are shown and how to get a rendering."""
        if self.can(PICTURE):
            return f"{self.env} renders images only; showing observations instead. Use --video FILE to see it."
        if TEXT in self.modes or PICTURE in self.modes:
            return (
                f"The factory of {self.env} takes no render_mode; showing observations instead. Add that "
                "parameter and pass it on to the env."
            )
        return f"{self.env} has no render modes; showing observations instead."


def look(env: str, options: Mapping[str, Any], wrap: Mapping[str, Any] | None = None) -> RenderModes:
    """Make an env to inspect its spec and render modes."""
    stage = LocalEnv(env, options, wrap=wrap)
    try:
        metadata = getattr(stage.env, "metadata", None) or {}
        pace = metadata.get("render_fps")
        return RenderModes(
            env,
            stage.spec,
            tuple(metadata.get("render_modes") or ()),
            getattr(stage.env, "render_mode", None),
            _takes_mode(env),
            float(pace) if pace else None,
        )
    finally:
        stage.close()


def _takes_mode(env: str) -> bool:
    from hotloop.envs import object_envs
    from hotloop.envs.adapters.factory import adapter_of, factory

    entry = adapter_of(env)
    assert entry is not None
    make = object_envs.find(env) if object_envs.is_local(env) else None
    if entry.prefix in ("gymnasium:", "pettingzoo:"):
        return True
    try:
        parameters = inspect.signature(make or factory(env[len(entry.prefix) :])).parameters
    except ValueError:  # some of what is not written in Python
        return False
    return "render_mode" in parameters or any(found.kind is found.VAR_KEYWORD for found in parameters.values())


def _format_observation(obs: Any) -> str:
    """Return one seat's observation as a line."""
    row = np.asarray(obs)
    if row.size > _READABLE:
        shape = "x".join(map(str, row.shape))
        return f"sees {shape} numbers, {row.min():.4g} to {row.max():.4g}, mean {row.mean():.4g}"
    return "sees " + " ".join(f"{number:.4g}" for number in row.ravel().tolist())


@contextlib.contextmanager
def _explaining(what: str) -> Iterator[None]:
    """Convert exceptions of an env to one-line errors with the location in the user's code."""
    from hotloop.errors import MissingPackageError

    try:
        yield
    except MissingPackageError as error:
        raise EnvError(error.need) from error
    except Exception as error:
        message = " ".join(str(error).split())
        if type(error).__module__ == "hotloop.errors":
            raise EnvError(f"{what}: {message}") from error
        raise EnvError(f"{what}: {type(error).__name__}: {message}{_location(error)}") from error


def _location(error: Exception) -> str:
    foreign = (sys.prefix, sys.base_prefix, _PACKAGE, "<")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(foreign) and "site-packages" not in frame.filename:
            return f" ({frame.filename}:{frame.lineno})"
    return ""
