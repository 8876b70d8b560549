"""Curves in a terminal, drawn with braille characters (two by four dots each)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hotloop.text import short

if TYPE_CHECKING:
    from hotloop.tracking.curves import Curve

_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_COLORS: Final = (36, 33, 32, 35, 34, 31)


@dataclass(frozen=True)
class Line:
    """A curve to draw; dim if it is in the background."""

    title: str
    curve: Curve
    color: int
    is_behind: bool = False


def draw(lines: Sequence[Line], *, width: int, height: int, colored: bool, ascii_only: bool = False) -> list[str]:
    """Return the chart as lines, with axes and a legend."""
    import numpy as np

    every = [line.curve for line in lines if len(line.curve.x)]
    left, right = min(float(c.x.min()) for c in every), max(float(c.x.max()) for c in every)
    low, high = min(float(c.y.min()) for c in every), max(float(c.y.max()) for c in every)
    if low == high:
        high = low + (abs(low) or 1.0)
    wide, tall = right - left or 1.0, high - low
    cells = np.zeros((height, width), np.int64)
    owner = np.full((height, width), -1)
    # Foreground curves are drawn last and set the character's color.
    for index in sorted(range(len(lines)), key=lambda i: not lines[i].is_behind):
        given = lines[index].curve
        if not len(given.x):
            continue
        across = (given.x - left) / wide * (2 * width - 1)
        # As many points as dots in a row, joined by straight lines.
        columns = np.arange(int(across[0]), int(across[-1]) + 1)
        rows = (1 - (np.interp(columns, across, given.y) - low) / tall) * (4 * height - 1)
        before = round(float(rows[0]))
        for column, row in zip(columns.tolist(), np.rint(rows).astype(int).tolist(), strict=True):
            for y in range(min(before, row), max(before, row) + 1):
                cells[y // 4, column // 2] |= _DOTS[y % 4][column % 2]
                owner[y // 4, column // 2] = index
            before = row
    if ascii_only:
        cells[:] = 0
    labels = [short_signed(high - tall * row / max(1, height - 1)) for row in range(height)]
    margin = max(map(len, labels))
    picture = []
    for row in range(height):
        drawn = "".join(_cell(int(cells[row, x]), int(owner[row, x]), lines, colored) for x in range(width))
        label = labels[row] if row % 4 == 0 or row == height - 1 else ""
        picture.append(f"{label:>{margin}} {'|' if ascii_only else '│'}{drawn.rstrip()}")
    begin, end = short_signed(left), short_signed(right)
    corner, bar = "+-" if ascii_only else "└─"
    picture.append(f"{'':>{margin}} {corner}{bar * width}")
    # The right end of the scale is left out if both do not fit.
    ends = f"{begin}{end:>{width - len(begin)}}" if len(begin) + len(end) < width else begin
    picture.append(f"{'':>{margin}}  {ends}")
    legend = (line for line in lines if not line.is_behind)
    picture += [f"{'':>{margin}}  {_paint(2 * bar, line.color, False, colored)} {line.title}" for line in legend]
    return picture


def color(index: int) -> int:
    """Return the color of the index-th line."""
    return _COLORS[index % len(_COLORS)]


def short_signed(value: float) -> str:
    """Format a number with few digits and its sign."""
    text = short(abs(value)).replace(" ", "")
    return f"-{text}" if value < 0 and float(f"{value:.3g}") else text


def _cell(dots: int, owner: int, lines: Sequence[Line], colored: bool) -> str:
    if owner < 0:
        return " "
    # Without dots, as on a terminal that has ASCII only, the whole cell is marked.
    mark = chr(0x2800 + dots) if dots else ".*"[not lines[owner].is_behind]
    return _paint(mark, lines[owner].color, lines[owner].is_behind, colored)


def _paint(text: str, number: int, dim: bool, colored: bool) -> str:
    return f"\x1b[{2 if dim else 1};{number}m{text}\x1b[0m" if colored else text
