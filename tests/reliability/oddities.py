"""Arguments that nobody meant: values of wrong kinds and sizes, and arrays that are nearly right."""

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

# Settings that only make a call take longer: forever would be right.
_LONG = ("epochs", "replays", "iteration", "batch")


class _Raises:
    """Fails at whatever it is asked."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no array")

    def __index__(self) -> int:
        raise ValueError("no index")

    def __len__(self) -> int:
        raise ValueError("no length")

    def __iter__(self) -> Any:
        raise ValueError("no iterator")


class _Lies(Sequence[int]):
    """A sequence that is shorter than it says."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: Any) -> Any:
        if index > 2:
            raise IndexError(index)
        return index


def odd_value(random: Random) -> Any:
    """A value of any kind."""
    plain = (None, True, False, -1, 0, 1, 2, 3, 255, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 2**200)
    floats = (0.5, -0.0, math.nan, math.inf, -math.inf, 1e308, 5e-324, 1e38, complex(1, 2))
    texts = ("", "x", "cartpole", "\0", "\ud800", "ü" * 300, "../..", b"", b"\0" * 10, b"\xff" * 100, bytearray(8))
    holders: tuple[Any, ...] = ([], [None], [[]], [1, 2, 3], [0.5], ["x"], {}, {"a": 1}, {1: 2}, (), (0, 1), (5, 2))
    others: tuple[Any, ...] = (
        object(),
        len,
        int,
        _Raises(),
        _Lies(),
        iter([1]),
        memoryview(b"abc"),
        slice(0, 2),
        Ellipsis,
        set(),
    )
    if random.random() < 0.5:
        return odd_array(random)
    return random.choice((*plain, *floats, *texts, *holders, *others))


def odd_array(random: Random) -> Any:
    """An array of any type and shape."""
    kinds = ("f4", "f8", ">f4", "f2", "i1", "i4", "i8", ">i8", "u4", "u8", "?", "c16", "O", "U3", "M8[s]", "V4")
    shape = random.choice([(), (0,), (1,), (3,), (4,), (8,), (4, 1), (4, 4), (2, 3, 4), (0, 4), (1, 1, 1, 1, 1)])
    array = np.zeros(shape, random.choice(kinds))
    return random.choice([array, np.broadcast_to(np.float32(0), (2**20, 2**20))] if random.random() < 0.1 else [array])


def nearly(value: Any, random: Random) -> Any:
    """A value like a valid one, with something wrong with it."""
    if isinstance(value, np.ndarray):
        return _nearly_array(value, random)
    if isinstance(value, bool) or value is None:
        return odd_value(random)
    if isinstance(value, int):
        return random.choice([value + 1, value - 1, -value, value * 1000, float(value), str(value), np.int8(1), 2**40])
    if isinstance(value, float):
        return random.choice([-value, math.nan, math.inf, 0.0, value * 1e30, 3, str(value)])
    if isinstance(value, bytes):
        cut = random.randrange(len(value) + 1)
        flipped = bytearray(value)
        if flipped:
            flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
        return random.choice([value[:cut], value + b"x", bytes(flipped), b"", value * 2])
    if isinstance(value, dict):
        changed = dict(value)
        if keys := [key for key in changed if key not in _LONG]:
            key = random.choice(keys)
            action = random.randrange(3)
            if action == 0:
                del changed[key]
            else:
                changed[key] = nearly(changed[key], random) if action == 1 else odd_value(random)
        else:
            changed[random.choice(["", "x", "gravity"])] = odd_value(random)
        return changed
    if isinstance(value, list | tuple):
        parts = list(value)
        if parts and random.random() < 0.7:
            at = random.randrange(len(parts))
            parts[at] = nearly(parts[at], random)
        else:
            parts = random.choice([parts * 2, parts[:-1], [*parts, None]])
        return type(value)(parts)
    return odd_value(random)


def _nearly_array(array: Any, random: Random) -> Any:
    changes = (
        lambda: array.astype(random.choice(["f8", "f2", ">f4", "i1", "i8", "u4", "?", "c8", "O", "U8"])),
        lambda: array[..., :-1] if array.ndim else array,
        lambda: np.concatenate([array, array]) if array.ndim else array,
        lambda: array.reshape(-1),
        lambda: array[None],
        lambda: array.T,
        lambda: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
        lambda: array[::-1] if array.ndim else array,
        lambda: np.full_like(array, 2**31 - 1 if array.dtype.kind in "iu" else -1),
        lambda: np.full_like(array, np.nan) if array.dtype.kind == "f" else np.full_like(array, 1),
        lambda: array.tolist(),
        lambda: np.asfortranarray(array),
    )
    try:
        with np.errstate(all="ignore"):
            return random.choice(changes)()
    except (TypeError, ValueError, OverflowError):
        return None
