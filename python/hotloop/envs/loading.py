"""Envs whose code is brought along: `native:PATH` and `compiled:FILE.py:NAME`. Loading one executes its code.

A name is made whole when a person says it, so that a run keeps one that means the same everywhere; code is loaded when
a person names the env, or goes on with a run that is trusted, and never when arrays are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop import _core

if TYPE_CHECKING:
    from hotloop.rendering import Renderer

NATIVE: Final = "native:"
COMPILED: Final = "compiled:"


def brings_code(env: str) -> bool:
    """Whether an env of that name is played by code of its own, on the threads of the native runner."""
    return env.startswith((NATIVE, COMPILED))


def whole_name(env: str) -> str:
    """The name with the path made absolute; nothing is loaded."""
    if env.startswith(NATIVE):
        return NATIVE + str(Path(env.removeprefix(NATIVE)).expanduser().absolute())
    return env


def load_env(env: str) -> str:
    """Makes an env known that brings its code, if it does and is not yet; gives its whole name."""
    name = whole_name(env)
    if not brings_code(name) or _core.has_env(name):
        return name
    from hotloop.envs.libraries import open_library

    open_library(name, Path(name.removeprefix(NATIVE)))
    return name


def short_name(env: str) -> str:
    """What a person would call it: the name of the file, or of what it has."""
    if env.startswith(NATIVE):
        return Path(env.removeprefix(NATIVE)).stem
    return env.rpartition(":")[2] if brings_code(env) else env


def renderer(env: str) -> Renderer | None:
    """How an env that brings its code shows itself, if it does."""
    from hotloop.envs import libraries

    found: Any = libraries.renderer(env)
    return found  # type: ignore[no-any-return]
