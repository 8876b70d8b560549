"""Suites: for tasks that are judged under several sets of options, the cells that `hotloop eval` plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Cell:
    """One set of options; it stands in a row and a column of the suite's table."""

    row: str
    column: str
    options: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.row}, {self.column}"


@dataclass(frozen=True)
class Suite:
    """The cells by which a task is judged; their sum is the score."""

    name: str
    cells: tuple[Cell, ...]


_CAGE2: Final = Suite(
    "CAGE Challenge 2",
    tuple(
        Cell(name, f"{length} steps", {"red": red, "lengths": [length], "green": False, "variant": "official"})
        for name, red in (("B_line", "b-line"), ("Meander", "meander"), ("Sleep", "sleep"))
        for length in (30, 50, 100)
    ),
)
_SUITES: Final = {"cage2": _CAGE2}


def suite_of(env: str) -> Suite | None:
    """The suite by which an env is judged, if it has one."""
    return _SUITES.get(env)
