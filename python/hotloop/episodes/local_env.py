"""A Python env in this process, to be watched: made so that it shows itself as text, as pictures, or not at all."""

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
# Of more numbers than these nobody reads each.
_READABLE: Final = 64
_PACKAGE: Final = str(Path(__file__).parents[1])


class Stage:
    """One env, with what an episode needs of a native pool. Episodes are those of any runner with that seed and index.

    Args:
        env: `gymnasium:ID`, `module:factory` and the like.
        options: What it is made with.
        index: The env's index among others.
        render_mode: How it is to show itself, if it must be told.
    """

    def __init__(self, env: str, options: Mapping[str, Any], *, index: int = 0, render_mode: str | None = None) -> None:
        from hotloop.runners.processes import ProcessRunner

        # Nobody looks at a window here, and pygame's greeting would stand among what is printed.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self._name = env
        self._options = dict(options)
        self._seed = 0
        self._steps = 0
        told = self._options if render_mode is None else {**self._options, "render_mode": render_mode}
        with _telling(f"{env} cannot be made"):
            self._runner = ProcessRunner(
                env, 1, num_workers=0, options=told, first_env=index, autoreset_mode="disabled"
            )
        (adapted,) = self._runner.envs_here()
        self.env = adapted.env
        """The env itself."""

    def options(self) -> dict[str, Any]:
        """What it was made with."""
        return self._options

    @property
    def spec(self) -> EnvSpec:
        """The env's spec."""
        return self._runner.env_spec

    def seed(self, seed: int) -> None:
        """What the next reset begins with."""
        self._seed = seed

    def reset(self) -> tuple[NDArray[Any], dict[str, Any]]:
        """Starts the episode."""
        with _telling(f"{self._name} failed in its reset"):
            obs, self._info = self._runner.reset(seed=self._seed)
        self._obs: NDArray[Any] = obs
        return obs, self._info

    def step(self, actions: Any) -> tuple[NDArray[Any], NDArray[np.float32], Any, Any, dict[str, Any]]:
        """Plays an action of each seat."""
        self._steps += 1
        with _telling(f"{self._name} failed in step {self._steps}"):
            result = self._runner.step(actions)
        self._obs = result[0]
        return result

    def text(self) -> str:
        """What the env says of itself in characters; what is seen in numbers, if it says nothing."""
        if getattr(self.env, "render_mode", None) != TEXT:
            return "\n".join(map(_in_numbers, self._obs))
        with _telling(f"{self._name} cannot be shown"):
            shown = self.env.render()
        return (shown.getvalue() if isinstance(shown, io.StringIO) else str(shown)).strip("\n")

    def picture(self) -> NDArray[np.uint8]:
        """The env in pixels: height, width, and red, green and blue."""
        with _telling(f"{self._name} cannot be drawn"):
            drawn = self.env.render()
        picture = np.asarray(drawn)
        if picture.ndim != 3 or picture.shape[2] not in (3, 4) or picture.dtype != np.uint8:
            what = type(drawn).__name__ if picture.ndim == 0 else f"{picture.dtype} of shape {picture.shape}"
            raise RenderError(f"the render() of {self._name} gave {what}: expected uint8 of height x width x 3")
        return np.ascontiguousarray(picture[:, :, :3])

    def close(self) -> None:
        """Frees the env."""
        self._runner.close()


@dataclass(frozen=True)
class Shows:
    """What an env is, and how it can show itself."""

    env: str
    spec: EnvSpec
    modes: tuple[str, ...]
    """The render modes that it names."""
    mode: str | None
    """That in which it is made without being told one."""
    takes_mode: bool
    """Whether it can be told one."""
    pace: float | None
    """Steps per second, if it says so."""

    def can(self, mode: Literal["ansi", "rgb_array"]) -> bool:
        """Whether it can show itself so."""
        return self.mode == mode or (self.takes_mode and mode in self.modes)

    def picture_refused(self) -> str:
        """Why there is no picture, and what would help."""
        if PICTURE in self.modes:
            factory = self.env.rpartition(":")[2]
            return (
                f"{self.env} could draw itself, but {factory} takes no render_mode: give it that parameter and hand it "
                f"on to the env, or make the env with render_mode={PICTURE!r}"
            )
        if self.can(TEXT):
            return f"{self.env} has no picture, only text: leave out --video"
        return f"{self.env} draws no pictures (its metadata names no render mode {PICTURE!r}): leave out --video"

    def text_refused(self) -> str:
        """Why numbers are shown, and what would help."""
        if self.can(PICTURE):
            return f"{self.env} draws pictures only, so its observations are shown: add --video FILE to see it."
        if TEXT in self.modes or PICTURE in self.modes:
            return (
                f"The factory of {self.env} takes no render_mode, so its observations are shown: give it that "
                "parameter and hand it on to the env."
            )
        return f"{self.env} does not show itself (it names no render modes), so its observations are shown."


def look(env: str, options: Mapping[str, Any]) -> Shows:
    """Makes an env to see what it is."""
    stage = Stage(env, options)
    try:
        metadata = getattr(stage.env, "metadata", None) or {}
        pace = metadata.get("render_fps")
        return Shows(
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
    from hotloop.envs.adapters.factory import adapter_of, factory

    entry = adapter_of(env)
    assert entry is not None
    if entry.prefix in ("gymnasium:", "pettingzoo:"):
        return True
    try:
        parameters = inspect.signature(factory(env[len(entry.prefix) :])).parameters
    except ValueError:  # some of what is not written in Python
        return False
    return "render_mode" in parameters or any(found.kind is found.VAR_KEYWORD for found in parameters.values())


def _in_numbers(seen: Any) -> str:
    """What one seat sees."""
    row = np.asarray(seen)
    if row.size > _READABLE:
        shape = "x".join(map(str, row.shape))
        return f"sees {shape} numbers, {row.min():.4g} to {row.max():.4g}, mean {row.mean():.4g}"
    return "sees " + " ".join(f"{number:.4g}" for number in row.ravel().tolist())


@contextlib.contextmanager
def _telling(what: str) -> Iterator[None]:
    """Turns whatever an env raises into an error of one line, with the place in a person's own code."""
    from hotloop.errors import MissingPackageError

    try:
        yield
    except MissingPackageError as error:
        raise EnvError(error.need) from error
    except Exception as error:
        words = " ".join(str(error).split())
        raise EnvError(f"{what}: {type(error).__name__}: {words}{_place(error)}") from error


def _place(error: Exception) -> str:
    foreign = (sys.prefix, sys.base_prefix, _PACKAGE, "<")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(foreign) and "site-packages" not in frame.filename:
            return f" ({frame.filename}:{frame.lineno})"
    return ""
