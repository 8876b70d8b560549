"""The schema of a checkpoint's manifest: types, ranges, and sizes that its weights can really have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

_MOST: Final = 2**63 - 1
_LONGEST: Final = 4096
# Entries of an observation.
_LARGEST: Final = 2**28

Check = Callable[[Any], bool]


class ManifestError(ValueError):
    """An entry that is missing, of the wrong type, or out of range."""


def _whole(least: int, most: int = _MOST) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(map(_whole(1, 2**31), value))


def _convolution(value: Any) -> bool:
    return isinstance(value, list) and len(value) >= 3 and all(map(_whole(0, 2**31), value)) and value[2] > 0


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number, value))


def _space(value: Any) -> bool:
    if not isinstance(value, dict) or not _text(value.get("kind")):
        return False
    checks: dict[str, Check] = {
        "n": lambda n: _whole(1, 2**31)(n) or _sizes(n),
        "shape": lambda shape: _sizes(shape) and len(shape) <= 8 and math.prod(shape) <= _LARGEST,
        "low": lambda low: _number(low) or _numbers(low),
        "high": lambda high: _number(high) or _numbers(high),
    }
    return all(check(value[key]) for key, check in checks.items() if key in value) and len(value) > 1


def _own_spaces(value: Any) -> bool:
    return isinstance(value, dict) and set(value) <= {"observation", "action"} and all(map(_own_space, value.values()))


def _own_space(value: Any, depth: int = 8) -> bool:
    """Whether it describes a space of a size that may be allocated; `space_json` reads the details."""
    if not isinstance(value, dict) or depth == 0:
        return False
    if value.get("kind") in ("dict", "tuple"):
        parts = value.get("parts")
        if not isinstance(parts, list) or len(parts) > _LONGEST:
            return False
        if value["kind"] == "dict":
            if not all(isinstance(part, list) and len(part) == 2 and _text(part[0]) for part in parts):
                return False
            parts = [part[1] for part in parts]
        return all(_own_space(part, depth - 1) for part in parts)
    shape = value.get("shape", [])
    return (
        isinstance(shape, list)
        and len(shape) <= 8
        and all(map(_whole(0, 2**31), shape))
        and (math.prod(shape) <= _LARGEST)
    )


def _file(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("sha256"), str)
        and len(value["sha256"]) == 64
        and _whole(0)(value.get("bytes"))
    )


def _files(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _file(value.get(name)) for name in ("policy.safetensors", "state.safetensors")
    )


def _evaluation(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and _number(value.get("mean")))


def _mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


_REQUIRED: Final[dict[str, Check]] = {
    "env": _text,
    "options": _mapping,
    "action_repeat": _whole(1, 1000),
    "observation": _space,
    "action": _space,
    "masked": lambda value: isinstance(value, bool),
    "seats": _whole(1, 2**16),
    "steps": _whole(0),
    "iterations": _whole(0),
    "seed": _whole(0, 2**64 - 1),
    "attempt": _whole(0, 2**31),
    "learner": _text,
    "versions": lambda value: isinstance(value, dict) and all(map(_text, value.values())) and "hotloop" in value,
    "files": _files,
}
_OPTIONAL: Final[dict[str, Check]] = {
    "policy": _mapping,
    "table": _mapping,
    "normalize_observations": lambda value: isinstance(value, bool),
    "gamma": _number,
    "algorithm": _text,
    "own_spaces": _own_spaces,
    "wrap": _mapping,
    "learners": lambda value: _texts(value) and len(value) > 0,
    "torch": _mapping,
    "evaluation": _evaluation,
    "best": lambda value: isinstance(value, bool),
    "threads": _whole(0, 2**20),
    "isa": _text,
    "date": _text,
}
_POLICY: Final[dict[str, Check]] = {
    "hidden": lambda value: _sizes(value) and 0 < len(value) <= 64,
    "activation": _text,
    "shared": lambda value: isinstance(value, bool),
    "embedding": _whole(0, 2**31),
    "log_std": _number,
    "memory": _text,
    "memory_size": _whole(1, 2**31),
    "memory_layers": _whole(1, 1024),
    "encoder": _text,
    "convolutions": lambda value: isinstance(value, list) and all(map(_convolution, value)),
    "module": _text,
    "module_options": _mapping,
}
_TABLE: Final[dict[str, Check]] = {
    "states": _whole(0),
    "actions": _whole(1, 2**31),
    "initial_value": _number,
}


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise a `ManifestError` that names the first entry that is wrong."""
    _check(manifest, _REQUIRED, "", required=True)
    _check(manifest, _OPTIONAL, "", required=False)
    _check(manifest.get("policy", {}), _POLICY, "policy.", required=False)
    _check(manifest.get("table", {}), _TABLE, "table.", required="table" in manifest)
    if ("policy" in manifest) == ("table" in manifest):
        raise ManifestError("expected either a policy or a table")
    if "policy" in manifest and "normalize_observations" not in manifest:
        raise ManifestError("normalize_observations is missing")
    weights, room = _fewest_weights(manifest), manifest["files"]["policy.safetensors"]["bytes"]
    # Half precision takes two bytes; a larger policy than the file can hold must not be allocated.
    if 2 * weights > room:
        raise ManifestError(f"it describes {weights} weights or more, but policy.safetensors has {room} bytes")


def _check(entries: Mapping[str, Any], checks: Mapping[str, Check], prefix: str, *, required: bool) -> None:
    for key, check in checks.items():
        if key not in entries:
            if required:
                raise ManifestError(f"{prefix}{key} is missing")
        elif not check(entries[key]):
            shown = repr(entries[key])
            raise ManifestError(
                f"{prefix}{key} is {shown if len(shown) < 80 else shown[:77] + '...'}, which is invalid"
            )


def _fewest_weights(manifest: Mapping[str, Any]) -> int:
    """Return how many weights there are at least, by the layers that the manifest describes."""
    if "table" in manifest:
        return int(manifest["table"]["states"] * manifest["table"]["actions"])
    policy, observation = manifest["policy"], manifest["observation"]
    if "module" in policy or "hidden" not in policy:
        return 0
    hidden = policy["hidden"]
    count = sum(a * b for a, b in pairwise(hidden)) + sum(hidden)
    if "n" in observation:
        inputs = policy.get("embedding") or observation["n"]
        count += (observation["n"] if policy.get("embedding") else 0) * inputs
    else:
        inputs = math.prod(observation["shape"])
    if "convolutions" in policy:
        layers = policy["convolutions"]
        count += sum(a[0] * b[0] * b[1] ** 2 for a, b in pairwise(layers))
        inputs = layers[-1][0] * _cells(observation.get("shape", []), layers) if layers else inputs
    count += inputs * hidden[0]
    if "memory_size" in policy:
        count += policy.get("memory_layers", 1) * policy["memory_size"] ** 2
    outputs = manifest["action"].get("n", 1)
    return int(count + (sum(outputs) if isinstance(outputs, list) else outputs))


def _cells(shape: list[int], layers: list[list[int]]) -> int:
    """Return how many cells convolutions without padding leave of a grid, of which the shortest axis is channels."""
    sides = sorted(shape)[-2:]
    for _, kernel, stride, *_ in layers:
        sides = [max(1, (side - kernel) // stride + 1) for side in sides]
    return math.prod(sides)
