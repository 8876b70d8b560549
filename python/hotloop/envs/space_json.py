"""Gymnasium spaces as JSON, so that a checkpoint can keep an env's own spaces. Needs Gymnasium when spaces are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import spaces
    from numpy.typing import NDArray


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return a description of a space that JSON can hold.

    >>> from gymnasium import spaces
    >>> space_to_json(spaces.Discrete(3, start=10))
    {'kind': 'discrete', 'n': 3, 'start': 10}
    """
    from gymnasium import spaces

    match space:
        case spaces.Dict():
            return {"kind": "dict", "parts": [[key, space_to_json(part)] for key, part in space.spaces.items()]}
        case spaces.Tuple():
            return {"kind": "tuple", "parts": [space_to_json(part) for part in space.spaces]}
        case spaces.Discrete():
            return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            sizes, starts = (np.asarray(array).tolist() for array in (space.nvec, space.start))
            return {"kind": "multi-discrete", "n": sizes, "start": starts, "dtype": _dtype(space)}
        case spaces.MultiBinary():
            return {"kind": "multi-binary", "shape": list(space.shape)}
        case spaces.Box():
            bounds = {"low": _compact(space.low), "high": _compact(space.high)}
            return {"kind": "box", "shape": list(space.shape), "dtype": _dtype(space), **bounds}
    if is_text(space):
        return {"kind": "text"}
    raise TypeError(f"the space {space} has no JSON form")


def is_text(space: spaces.Space[Any]) -> bool:
    """Return whether the elements of a space are texts; packages have classes of their own for that."""
    return space.dtype is not None and np.dtype(space.dtype).kind == "U"


def without_text(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space without texts in Dicts, such as the mission of MiniGrid: policies do not see them."""
    from gymnasium import spaces

    if not isinstance(space, spaces.Dict):
        return space
    kept = {key: without_text(part) for key, part in space.spaces.items() if not is_text(part)}
    return spaces.Dict(kept) if kept else space


def space_from_json(values: Mapping[str, Any]) -> spaces.Space[Any]:
    """Return the space that `space_to_json` described, without texts."""
    from gymnasium import spaces

    match values["kind"]:
        case "dict":
            return spaces.Dict(
                [(key, space_from_json(part)) for key, part in values["parts"] if part["kind"] != "text"]
            )
        case "tuple":
            return spaces.Tuple([space_from_json(part) for part in values["parts"]])
        case "discrete":
            return spaces.Discrete(values["n"], start=values["start"])
        case "multi-discrete":
            sizes, starts = (np.array(values[key], np.int64) for key in ("n", "start"))
            return spaces.MultiDiscrete(sizes, dtype=np.dtype(values["dtype"]).type, start=starts)
        case "multi-binary":
            shape = values["shape"]
            return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
        case "box":
            dtype = np.dtype(values["dtype"])
            low, high = (np.broadcast_to(np.array(values[end], dtype), values["shape"]) for end in ("low", "high"))
            return spaces.Box(low, high, tuple(values["shape"]), dtype.type)
    raise ValueError(f"there is no kind of space {values['kind']!r}")


def _dtype(space: spaces.Space[Any]) -> str:
    return str(np.dtype(space.dtype))


def _compact(bounds: NDArray[Any]) -> Any:
    """Return one number if all bounds are equal: an image would need one for each pixel."""
    plain = np.ravel(bounds).tolist()
    return plain[0] if plain and plain.count(plain[0]) == len(plain) else bounds.tolist()
