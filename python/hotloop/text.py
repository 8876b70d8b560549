"""Numbers and times as people read them, and values as JSON holds them."""

import dataclasses
import math
from typing import Any

PREFIXES = ((1e9, " G"), (1e6, " M"), (1e3, " k"))


def short(value: float) -> str:
    """A number with three digits that count: 171 M, 46.9 k, 812.

    >>> [short(x) for x in (171_300_000, 46_870, 999_900, 812.4, 0.5)]
    ['171 M', '46.9 k', '1.00 M', '812', '0.500']
    """
    # Rounded first, so that what rounds up to a thousand gets the next prefix.
    value = float(f"{value:.3g}")
    for size, prefix in PREFIXES:
        if value >= size:
            return _three_digits(value / size) + prefix
    return _three_digits(value)


def _three_digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")


def duration(seconds: float) -> str:
    """A time in the units that suit it.

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
    """A measured number; a dash while there is none.

    >>> [measured(x) for x in (481.27, -0.01234, math.nan)]
    ['481.3', '-0.01234', '-']
    """
    return f"{value:.{digits}g}" if math.isfinite(value) else "-"


def plain(value: Any) -> Any:
    """What JSON can hold: numbers to nine digits, null for those that are not finite, dataclasses as objects."""
    # By what is met most: a run's records pass through here many times a second.
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
