"""Formatting and parsing of numbers and durations, and conversion of values to JSON."""

import dataclasses
import math
import re
from decimal import Decimal
from typing import Any

PREFIXES = ((1e9, " G"), (1e6, " M"), (1e3, " k"))
# Two digits of exponent, so that no text makes an int of absurd length.
_NUMBER = re.compile(r"([+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,2})?)([kKmMgG]?)")
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def short(value: float) -> str:
    """Return a number with three significant digits: 171 M, 46.9 k, 812.

    >>> [short(x) for x in (171_300_000, 46_870, 999_900, 812.4, 0.5)]
    ['171 M', '46.9 k', '1.00 M', '812', '0.500']
    """
    # Rounded first, so that a value that rounds up to 1000 gets the next prefix.
    value = float(f"{value:.3g}")
    for size, prefix in PREFIXES:
        if value >= size:
            return _three_digits(value / size) + prefix
    return _three_digits(value)


def _three_digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")


def parse_number(text: str) -> int | float | str:
    """Return the number that a text stands for, with an optional suffix k, M or G; the text itself if it is none.

    >>> [parse_number(x) for x in ("1e6", "100k", "2.5M", "3e-4", "64", "many")]
    [1000000, 100000, 2500000, 0.0003, 64, 'many']
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return text
    value = Decimal(found[1]) * _SUFFIXES[found[2].lower()]
    return int(value) if value == int(value) else float(value)


def duration(seconds: float) -> str:
    """Return a duration in suitable units.

    >>> [duration(x) for x in (0.0734, 4.25, 75, 3 * 3600 + 62)]
    ['0.07 s', '4.2 s', '1:15', '3:01:02']
    """
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"


def measured(value: float, digits: int = 4) -> str:
    """Return a measured number, or a dash if it is not finite.

    >>> [measured(x) for x in (481.27, -0.01234, math.nan)]
    ['481.3', '-0.01234', '-']
    """
    return f"{value:.{digits}g}" if math.isfinite(value) else "-"


def plain(value: Any) -> Any:
    """Return the JSON form of a value: nine significant digits, null for non-finite numbers, dataclasses as objects."""
    # The most frequent types first: a run's records pass through here many times a second.
    kind = type(value)
    if kind is float:
        return float(f"{value:.9g}") if math.isfinite(value) else None
    if kind is int or kind is str or kind is bool or value is None:
        return value
    if isinstance(value, float):
        return plain(float(value))
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return plain(vars(value)) if dataclasses.is_dataclass(value) else value


def printable(text: str, longest: int = 10_000) -> str:
    r"""A text from elsewhere that is safe to print: control characters are escaped, and its length is bounded.

    >>> printable("a\x1b[31mb\nc"), printable("x" * 9, 5)
    ('a\\x1b[31mb\\nc', 'xxxx…')
    """
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def bounded(value: Any, longest: int) -> Any:
    """A JSON value in which no text is longer; of those that were, beginning and end are kept.

    >>> bounded({"what": "x" * 1000}, 9)
    {'what': 'xxxxxx ... 991 characters left out ... xxx'}
    """
    if isinstance(value, str):
        if len(value) <= longest:
            return value
        end = longest // 3
        return f"{value[: longest - end]} ... {len(value) - longest} characters left out ... {value[-end:]}"
    if isinstance(value, dict):
        return {key: bounded(entry, longest) for key, entry in value.items()}
    return [bounded(entry, longest) for entry in value] if isinstance(value, list) else value


def storable(text: str) -> str:
    r"""A text that any database takes: characters that are none are replaced.

    >>> storable("a\0b\ud800c") == "a\ufffdb\ufffdc"
    True
    """
    if text.isascii() and "\0" not in text:
        return text
    return "".join("\ufffd" if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in text)
