"""The shape of a journal's events: which keys each kind has, and of what type.

A journal is a file that anything may have happened to. An event that is not as expected is left out where it is read,
so that no other code has to expect the unexpected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

Check = Callable[[Any], bool]

# Range of an integer column.
_LARGEST: Final = 2**63 - 1
_LONGEST_NAME: Final = 1000
EPISODE_STATISTICS: Final = ("return_mean", "return_std", "return_min", "return_max", "length_mean")
STATUSES: Final = ("completed", "stopped", "failed")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number that fits a column of the store."""
    return (type(value) is float and isfinite(value)) or (type(value) is int and abs(value) <= _LARGEST)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_name(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= _LONGEST_NAME


def _is_mapping(value: Any) -> bool:
    return type(value) is dict


def _is_seed(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**64


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _mapping_of(check: Check) -> Check:
    return lambda value: type(value) is dict and all(map(check, value.values()))


def _with(checks: Mapping[str, Check]) -> Check:
    return lambda value: type(value) is dict and not _first_fault(value, checks)


def _is_config(value: Any) -> bool:
    return _mapping_of(_is_mapping)(value) and "env" in value


def _is_sample(value: Any) -> bool:
    return type(value) is list


_IS_RESULT: Final = _with(
    {
        **dict.fromkeys(("mean", "low", "high"), _optional(is_number)),
        "episodes": _is_count,
        "metrics": _is_mapping,
    }
)
_PROGRESS: Final[dict[str, Check]] = {
    "iterations": _is_count,
    "episodes": _is_count,
    "seconds": is_number,
    "return_recent": _optional(is_number),
}
_KINDS: Final[dict[str, dict[str, Check]]] = {
    "start": {
        "id": _is_name,
        "run": _is_name,
        "host": _is_text,
        "process": _is_count,
        "env": _is_name,
        "seed": _is_seed,
        "config": _is_config,
        "versions": _optional(_is_mapping),
        "git": _optional(_is_text),
        "env_options": _optional(_is_mapping),
    },
    "iteration": {**_PROGRESS, "episodes_in": _is_count, "sample": _optional(_is_sample)},
    "evaluation": {"evaluation": _IS_RESULT, "is_best": _is_flag, "confirms": _is_flag},
    "eval": {"evaluation": _IS_RESULT, "how": _with({"options": _is_mapping})},
    "checkpoint": {"path": _is_text, "is_best": _is_flag},
    "retraction": {},
    "trouble": {"what": _is_text, "kind": _optional(_is_name), "facts": _optional(_is_mapping)},
    "values": {"values": _mapping_of(_optional(is_number))},
    "verification": {"what": _is_text, "facts": _is_mapping},
    "control": {"what": _is_text, "decisions": lambda value: value is not None},
    "resources": {
        "of": _mapping_of(_with({"cpu": _optional(is_number), "memory": _optional(is_number)})),
    },
    "end": {**_PROGRESS, "status": lambda value: value in STATUSES, "ended": _optional(_is_text)},
}
# The keys that any event may have and that decide which other events are void.
_COMMON: Final[dict[str, Check]] = {
    "event": _is_name,
    "at": is_number,
    "steps": _optional(_is_count),
    "resumed_at": _optional(_is_count),
    "valid_bytes": _optional(_is_count),
    "back_to": _optional(_is_count),
}


def find_common_fault(event: Any) -> str:
    """Return the problem of an event of any kind; empty if there is none."""
    if type(event) is not dict:
        return "it is not a JSON object"
    return _first_fault(event, _COMMON)


def find_fault(event: dict[str, Any]) -> str:
    """Return the problem of an event of its kind; empty if there is none, or if only a later version has the kind."""
    checks = _KINDS.get(event["event"])
    if checks is None:
        return ""
    if type(event.get("steps")) is not int:
        return "'steps' is missing"
    if event["event"] == "iteration" and event.get("episodes_in"):
        checks = {**checks, **dict.fromkeys(EPISODE_STATISTICS, is_number)}
    return _first_fault(event, checks)


def _first_fault(values: dict[str, Any], checks: Mapping[str, Check]) -> str:
    for key, check in checks.items():
        if not check(values.get(key)):
            return f"{key!r} is missing" if key not in values else f"{key!r} has an unexpected value"
    return ""
