"""The declaration of a compiled env: a class whose fields are the state and whose functions are the rules.

The class is never instantiated. Its functions get the state as their first argument: compiled, a record in native
memory; uncompiled, an object that reads and writes the same bytes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from types import FunctionType

    import gymnasium

_SCALARS: Final = {"float": "float64", "int": "int64", "bool": "uint8"}
# Parameters that each function may have besides the state.
_ASKS: Final = {
    "reset": ("rng", "options"),
    "step": ("action", "rng", "options"),
    "observe": ("obs", "mask", "options"),
    "success": (),
    "render": (),
}
_NEEDED: Final = ("reset", "step", "observe")


class _Array:
    """A fixed array of the state."""

    dtype: str

    def __init__(self, *shape: int) -> None:
        if not shape or min(shape) < 1:
            raise ConfigError(f"{type(self).__name__}{shape}: expected sizes of 1 or more")
        self.shape = shape


class Ints(_Array):
    """An array of 64-bit integers: `Ints(6, 7)`."""

    dtype = "int64"

    # The type that functions of an env get, for type checkers.
    def __getitem__(self, index: Any) -> int:
        raise TypeError("the state exists only inside the env's functions")

    def __setitem__(self, index: Any, value: int) -> None:
        raise TypeError("the state exists only inside the env's functions")


class Bytes(Ints):
    """An array of integers from 0 to 255."""

    dtype = "uint8"


class Floats(_Array):
    """An array of 64-bit floats."""

    dtype = "float64"

    def __getitem__(self, index: Any) -> float:
        raise TypeError("the state exists only inside the env's functions")

    def __setitem__(self, index: Any, value: float) -> None:
        raise TypeError("the state exists only inside the env's functions")


@dataclass(frozen=True)
class Option:
    """An option of an env, with the values it may take."""

    default: bool | int | float
    low: float = -np.inf
    high: float = np.inf
    about: str = ""


OptionLike = bool | int | float | tuple[str, ...] | Option


@dataclass(frozen=True)
class Declared:
    """An env as its author declared it."""

    name: str
    about: str
    observation: gymnasium.Space[Any]
    action: gymnasium.Space[Any]
    masked: bool
    max_steps: int
    version: int
    terms: tuple[str, ...]
    options: Mapping[str, OptionLike]
    functions: Mapping[str, FunctionType]
    state: np.dtype[Any]
    file: Path | None = field(compare=False)

    def asks(self, function: str) -> list[str]:
        """Return the parameters of a function besides the state."""
        return list(inspect.signature(self.functions[function]).parameters)[1:]

    def where(self, function: str) -> str:
        """Return the location of a function, for error messages."""
        code = self.functions[function].__code__
        return f"{self.name}.{function} ({Path(code.co_filename).name}, line {code.co_firstlineno})"


def declare(
    cls: type,
    observation: gymnasium.Space[Any],
    action: gymnasium.Space[Any],
    masked: bool,
    max_steps: int,
    version: int,
    terms: Sequence[str],
    options: Mapping[str, OptionLike],
) -> Declared:
    """Return the declaration of a class; raise an error that names what is missing or invalid."""
    functions = {name: vars(cls)[name] for name in _ASKS if name in vars(cls)}
    for name in _NEEDED:
        if name not in functions:
            raise ConfigError(f"{cls.__name__} has no function {name}: an env has reset, step and observe")
    for name, function in functions.items():
        if not inspect.isfunction(function):
            raise ConfigError(f"{cls.__name__}.{name} is {function!r}: expected a plain function")
        allowed = [ask for ask in _ASKS[name] if ask != "mask" or masked]
        given = list(inspect.signature(function).parameters)[1:]
        if wrong := [ask for ask in given if ask not in allowed]:
            takes = ", ".join(["self", *allowed])
            hint = " (masked=True gives masks)" if wrong[0] == "mask" else ""
            raise ConfigError(f"{cls.__name__}.{name} asks for {wrong[0]!r}: it may ask for {takes}{hint}")
    if masked and "mask" not in inspect.signature(functions["observe"]).parameters:
        raise ConfigError(f"{cls.__name__} has masked=True, but its observe asks for no 'mask'")
    file = Path(functions["reset"].__code__.co_filename)
    return Declared(
        name=cls.__name__,
        about=(cls.__doc__ or "").strip().partition("\n")[0],
        observation=observation,
        action=action,
        masked=masked,
        max_steps=max_steps,
        version=version,
        terms=tuple(terms),
        options=dict(options),
        functions=functions,
        state=_state(cls),
        file=file.resolve() if file.is_file() else None,
    )


def _state(cls: type) -> np.dtype[Any]:
    """Return the record of the state: annotated numbers and arrays, in the order of the class."""
    fields: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, annotation in inspect.get_annotations(cls).items():
        kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
        if name not in vars(cls) and kind not in _SCALARS:
            raise ConfigError(
                f"{cls.__name__}.{name} is {kind}: a state has float, int and bool (numbers of 64 bits), and arrays: "
                f"{name} = Floats(3), Ints(6, 7) or Bytes(42)"
            )
        if name not in vars(cls):
            fields[name] = (_SCALARS[kind], ())
    for name, value in vars(cls).items():
        if isinstance(value, _Array):
            fields[name] = (value.dtype, value.shape)
    if not fields:
        raise ConfigError(f"{cls.__name__} has no state: annotate numbers (x: float), or give arrays (board = Ints(9))")
    return np.dtype([(name, *what) for name, what in fields.items()], align=True)
