"""Envs in shared libraries: loading, their function table, and rendering of states."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop import _core
from hotloop.envs import abi
from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.envs.scene import Scene

# Longest text that a library may return for a state.
_ROOM = 1 << 16
_tables: dict[str, abi.Env] = {}


def open_library(name: str, path: Path) -> None:
    """Load a library, which executes its initialisers, and register its env under that name."""
    if not path.is_file():
        raise ConfigError(f"there is no library {path}")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be loaded as a library: {error}") from None
    try:
        give = getattr(library, abi.SYMBOL)
    except AttributeError:
        raise ConfigError(f"{path} has no function {abi.SYMBOL}: it is no env (see hotloop.h)") from None
    give.restype = ctypes.c_void_p
    address: int | None = give()
    try:
        _core.add_env(name, address or 0)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    assert address is not None
    _tables[name] = abi.Env.from_address(address)


class LibraryRenderer:
    """Renders states by their library's function."""

    def __init__(self, table: abi.Env) -> None:
        self._table = table

    def text(self, scene: Scene) -> str:
        """Return the state as text."""
        table = self._table
        state = ctypes.create_string_buffer(table.state_bytes + table.state_alignment)
        start = -ctypes.addressof(state) % table.state_alignment
        for name, offset in _places(table, scene.state):
            bytes_ = scene.state[name].tobytes()
            ctypes.memmove(ctypes.addressof(state) + start + offset, bytes_, len(bytes_))
        values = (abi.Value * max(1, table.option_count))()
        for i in range(table.option_count):
            _put(values[i], table.options[i], scene.options[table.options[i].name.decode()])
        text = ctypes.create_string_buffer(_ROOM)
        written = abi.Render(table.render)(ctypes.addressof(state) + start, ctypes.addressof(values), text, _ROOM)
        if not 0 <= written <= _ROOM:
            return f"(its render returned {written})"
        return text.raw[:written].decode("utf-8", "replace")


def renderer(name: str) -> LibraryRenderer | None:
    """Return the renderer of a loaded library's env, if it has one."""
    table = _tables.get(name)
    return None if table is None or not table.render else LibraryRenderer(table)


def _places(table: abi.Env, state: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the fields of a state with their offsets; bytes outside of all fields are named by their offset."""
    places = {table.fields[i].name.decode(): table.fields[i].offset for i in range(table.field_count)}
    places |= {name: int(name.removeprefix("bytes_")) for name in state if name.startswith("bytes_")}
    return [(name, offset) for name, offset in places.items() if name in state]


def _put(value: abi.Value, option: abi.Option, given: Any) -> None:
    match option.kind:
        case abi.NUMBER:
            value.number = given
        case abi.WORD:
            value.whole = [option.words[i].decode() for i in range(option.word_count)].index(given)
        case _:
            value.whole = int(given)
