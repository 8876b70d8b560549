"""The journal's line for a record, formatted by one template.

Records are written many times a second while training uses all cores; a general JSON encoder takes five times as long.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from itertools import chain
from math import isfinite
from operator import attrgetter
from typing import Any, Final

from hotloop.text import plain
from hotloop.training.callbacks import IterationReport, TimeSplit

_NUMBERS: Final = [field for field in dataclasses.fields(IterationReport) if field.type in ("int", "float")]
_TIMES: Final = [field.name for field in dataclasses.fields(TimeSplit)]
_numbers: Final = attrgetter(*(field.name for field in _NUMBERS), *(f"time.{name}" for name in _TIMES))
_TEMPLATE: Final = ",".join(
    [
        '{"event":"iteration"',
        *(f'"{field.name}":{"%d" if field.type == "int" else "%.9g"}' for field in _NUMBERS),
        '"time":{' + ",".join(f'"{name}":%.9g' for name in _TIMES) + "}",
    ]
)
_OF_TEXTS: Final = _TEMPLATE.replace("%d", "%s").replace("%.9g", "%s")


def record_line(at: float, report: IterationReport) -> bytes:
    """Return the same line as the journal's general encoder, except that whole floats have no decimal point."""
    numbers = _numbers(report)
    head = _TEMPLATE % numbers if all(map(isfinite, numbers)) else _OF_TEXTS % tuple(map(_number, numbers))
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
