"""The structs of `hotloop.h` for ctypes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import ClassVar, Final

INCLUDE: Final = Path(__file__).resolve().parent.parent / "include"
"""The folder of `hotloop.h`."""
ABI: Final = 2
SYMBOL: Final = "hotloop_env_table"

NUMBER, WHOLE, YES_NO, WORD = 1, 2, 3, 4
OBSERVE_NUMBERS, OBSERVE_BYTES, OBSERVE_STATE = 1, 2, 3
CHOOSE, CHOOSE_EACH, AMOUNTS = 1, 2, 3
FIELD_KINDS: Final = {"float32": 1, "float64": 2, "int32": 3, "int64": 4, "uint8": 5}

_u32, _u64, _void = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p


class Value(ctypes.Union):
    """`hotloop_value`."""

    _fields_: ClassVar = [("number", ctypes.c_double), ("whole", ctypes.c_int64)]


class Option(ctypes.Structure):
    """`hotloop_option`."""

    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("about", ctypes.c_char_p),
        ("kind", _u32),
        ("word_count", _u32),
        ("words", ctypes.POINTER(ctypes.c_char_p)),
        ("value", Value),
        ("low", ctypes.c_double),
        ("high", ctypes.c_double),
    ]


class Field(ctypes.Structure):
    """`hotloop_field`."""

    _fields_: ClassVar = [("name", ctypes.c_char_p), ("kind", _u32), ("count", _u32), ("offset", _u64)]


Reset: Final = ctypes.CFUNCTYPE(ctypes.c_int32, _void, _void, _void)
Step: Final = ctypes.CFUNCTYPE(ctypes.c_int32, _void, _void, _void, _void, _void, _void, _void)
Observe: Final = ctypes.CFUNCTYPE(ctypes.c_int32, _void, _void, _void, _void, _void)
Render: Final = ctypes.CFUNCTYPE(ctypes.c_int32, _void, _void, ctypes.c_char_p, _u64)
Explain: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, _void, _u64)


class Env(ctypes.Structure):
    """`hotloop_env`."""

    _fields_: ClassVar = [
        ("abi", _u32),
        ("table_bytes", _u32),
        ("name", ctypes.c_char_p),
        ("about", ctypes.c_char_p),
        ("state_bytes", _u64),
        ("state_alignment", _u64),
        ("state_version", _u32),
        ("seats", _u32),
        ("observation_kind", _u32),
        ("observation_dims", _u32),
        ("observation_shape", ctypes.POINTER(_u64)),
        ("observation_low", ctypes.POINTER(ctypes.c_float)),
        ("observation_high", ctypes.POINTER(ctypes.c_float)),
        ("action_kind", _u32),
        ("action_width", _u32),
        ("action_choices", ctypes.POINTER(_u32)),
        ("action_low", ctypes.POINTER(ctypes.c_float)),
        ("action_high", ctypes.POINTER(ctypes.c_float)),
        ("masked", _u32),
        ("max_steps", _u32),
        ("term_count", _u32),
        ("metric_count", _u32),
        ("terms", ctypes.POINTER(ctypes.c_char_p)),
        ("metrics", ctypes.POINTER(ctypes.c_char_p)),
        ("option_count", _u32),
        ("field_count", _u32),
        ("options", ctypes.POINTER(Option)),
        ("fields", ctypes.POINTER(Field)),
        ("step_nanoseconds", _u32),
        ("reserved", _u32),
        ("reset", _void),
        ("step", _void),
        ("observe", _void),
        ("check", _void),
        ("render", _void),
        ("play", _void),
        ("explain", _void),
    ]


def tell(words: str, address: int, room: int) -> int:
    """Write text to a buffer of C; return its length in bytes."""
    data = words.encode()[:room]
    ctypes.memmove(address, data, len(data))
    return len(data)
