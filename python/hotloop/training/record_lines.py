"""The journal's line for a record, formatted by one template.

Records are written many times a second while training uses all cores; a general JSON encoder takes five times as long.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from math import isfinite
from operator import attrgetter
from typing import Any, Final, get_type_hints

from hotloop.text import plain
from hotloop.training.callbacks import IterationReport, TimeSplit

_FORMATS: Final = {int: "%d", float: "%.9g"}
_NUMBERS: Final = {name: kind for name, kind in get_type_hints(IterationReport).items() if kind in _FORMATS}
_TIMES: Final = [field.name for field in dataclasses.fields(TimeSplit)]
_numbers: Final = attrgetter(*_NUMBERS, *(f"time.{name}" for name in _TIMES))


@lru_cache(maxsize=16)
def _template(losses: tuple[str, ...], finite: bool) -> str:
    """Return the template of the line's first part; numbers that may not be finite are given as texts."""
    formats = _FORMATS if finite else dict.fromkeys(_FORMATS, "%s")
    real = formats[float]
    return ",".join(
        [
            '{"event":"iteration"',
            *(f'"{name}":{formats[kind]}' for name, kind in _NUMBERS.items()),
            '"time":{' + ",".join(f'"{name}":{real}' for name in _TIMES) + "}",
            *(f"{json.dumps(name).replace('%', '%%')}:{real}" for name in losses),
        ]
    )


def record_line(at: float, report: IterationReport) -> bytes:
    """Return a record with its losses as entries of their own; whole floats have no decimal point."""
    numbers = (*_numbers(report), *report.losses.values())
    finite = all(map(isfinite, numbers))
    head = _template(tuple(report.losses), finite) % (numbers if finite else tuple(map(_number, numbers)))
    statistics = "null" if report.statistics is None else _general(report.statistics)
    return (
        f'{head},"terms":{_object(report.terms)},"metrics":{_object(report.metrics)},'
        f'"measures":{_object(report.measures)},"sample":{_pairs(report.sample)},"statistics":{statistics},'
        f'"at":{at:.3f}}}\n'
    ).encode()


def _number(value: float) -> str:
    if type(value) is int:
        return str(value)
    return f"{value:.9g}" if isfinite(value) else "null"


def _object(values: Mapping[str, float]) -> str:
    return "{" + ",".join([f"{json.dumps(name)}:{_number(value)}" for name, value in values.items()]) + "}"


def _pairs(pairs: list[list[float]]) -> str:
    numbers: tuple[float, ...] = tuple(chain.from_iterable(pairs))
    if not numbers or not all(map(isfinite, numbers)):
        return _general(pairs)
    return f"[{(',[%.9g,%.9g]' * len(pairs))[1:] % numbers}]"


def _general(value: Any) -> str:
    return json.dumps(plain(value), separators=(",", ":"))
