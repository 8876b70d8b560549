"""Envs written in plain Python and compiled: `@hotloop.compiled` over a class of state and rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hotloop import _core
from hotloop.envs.compiled.declaration import Bytes, Declared, Floats, Ints, Option, OptionLike, declare
from hotloop.envs.compiled.functions import (
    Rng,
    below,
    bits,
    cos,
    episode_draws,
    exp,
    log,
    normal,
    sin,
    sin_cos,
    tanh,
    uniform,
)
from hotloop.envs.compiled.spaces import Layout, Table, layout_of
from hotloop.envs.loader import COMPILED

if TYPE_CHECKING:
    import gymnasium

    from hotloop.envs.compiled.uncompiled import Failures
    from hotloop.envs.scene import Scene

__all__ = [
    "Bytes",
    "CompiledEnv",
    "Floats",
    "Ints",
    "Option",
    "Rng",
    "below",
    "bits",
    "compiled",
    "cos",
    "episode_draws",
    "exp",
    "log",
    "normal",
    "sin",
    "sin_cos",
    "tanh",
    "uniform",
]

SWITCH: Final = "HOTLOOP_COMPILED"
_loaded: dict[str, CompiledEnv] = {}
# Native code and tables are never freed: a runner may still use them.
_tables: list[Table] = []


def compiled(
    *,
    observation: gymnasium.Space[Any],
    action: gymnasium.Space[Any],
    masked: bool = False,
    max_steps: int = 0,
    options: Mapping[str, OptionLike] | None = None,
    terms: Sequence[str] = (),
    version: int = 1,
    debug: bool = False,
) -> Callable[[type], CompiledEnv]:
    """Make an env of a class: its annotated numbers and arrays are the state, its functions the rules.

    Numba compiles them when the env is first used; the native runner's threads call them, without Python.

    Args:
        observation: A `Box` of float32 or uint8, or `Discrete`.
        action: `Discrete`, `MultiDiscrete`, or a `Box` of float32 and one dimension.
        masked: Whether `observe` is given a `mask` to clear what is forbidden.
        max_steps: The default of the option `max_steps`: steps until an episode is truncated, 0 for never.
        options: What people can set as `env.NAME=VALUE`: a default, a tuple of words, or an `Option` with bounds.
        terms: Names of the parts of the reward, if `step` gives a tuple of several.
        version: To be raised when the state changes its meaning; older snapshots are then refused.
        debug: Whether Python itself runs the functions, as `HOTLOOP_COMPILED=0` has it for all envs.
    """

    def make(cls: type) -> CompiledEnv:
        declared = declare(cls, observation, action, masked, max_steps, version, terms, options or {})
        return CompiledEnv(declared, layout_of(declared), debug=debug)

    return make


class CompiledEnv:
    """An env made by `hotloop.compiled`; `hotloop.make_vec` takes it, or its name."""

    def __init__(self, declared: Declared, layout: Layout, *, debug: bool) -> None:
        self._declared = declared
        self._layout = layout
        self._debug = debug
        self.failures: Failures | None = None
        """Exceptions of the functions, if they run uncompiled."""
        self.name = f"{COMPILED}{declared.file or '(memory)'}:{declared.name}"

    def load(self, name: str | None = None) -> str:
        """Compile and register it, unless that was done; return its name."""
        name = name or self.name
        if _loaded.get(name) is self:
            return name
        if self._debug or os.environ.get(SWITCH) == "0":
            from hotloop.envs.compiled.uncompiled import Failures, callbacks

            self.failures = Failures()
            functions = callbacks(self._declared, self._layout, self.failures)
        else:
            from hotloop.envs.compiled.compiler import compile_functions

            functions = compile_functions(self._declared, self._layout)
        table = Table(self._declared, self._layout, functions)
        _core.add_env(name, table.address)
        _tables.append(table)
        _loaded[name] = self
        return name

    def text(self, scene: Scene) -> str:
        """Return the state as text, by the author's `render`."""
        import numpy as np

        from hotloop.envs.compiled.uncompiled import State

        record = np.zeros(1, self._declared.state)
        for field in self._declared.state.names or ():
            record[field][0] = np.reshape(scene.state[field], record[field][0].shape)
        return str(self._declared.functions["render"](State(record[0])))

    @property
    def shows_itself(self) -> bool:
        """Whether the author defined `render`."""
        return "render" in self._declared.functions

    def __repr__(self) -> str:
        return f"CompiledEnv({self.name!r})"


def loaded(name: str) -> CompiledEnv | None:
    """Return the env of that name, if it is registered."""
    return _loaded.get(name)
