"""Curves as a picture: axes, grid, bands, lines and a legend, by Pillow.

A library for plots takes longer to import than everything else takes that a plot of a run needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.errors import RenderError
from hotloop.rendering.drawing import GREY, INK, PALE, Colour
from hotloop.text import PREFIXES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

_SIZE: Final = (1080, 600)
# Pixels above and right of the frame, and below it for ticks and axis label.
_TOP, _RIGHT, _BOTTOM, _GAP = 46, 24, 64, 10
_TEXT: Final = 17
# Supersampling factor for smooth edges.
_OVER: Final = 3
_LINE: Final = 2
_PAPER: Final = (255, 255, 255)
COLOURS: Final[tuple[Colour, ...]] = (
    (31, 119, 180),
    (230, 115, 15),
    (44, 150, 44),
    (214, 39, 40),
    (140, 95, 185),
    (140, 86, 75),
    (215, 110, 185),
    (110, 110, 110),
    (165, 165, 30),
    (20, 170, 190),
)


@dataclass(frozen=True)
class Band:
    """The area between two curves, in the colour of its line."""

    x: Values
    low: Values
    high: Values


@dataclass(frozen=True)
class ChartLine:
    """A curve with the bands behind it."""

    title: str
    x: Values
    y: Values
    bands: Sequence[Band] = ()


def chart(lines: Sequence[ChartLine], *, up: str, along: str) -> Any:
    """Draw the lines as a Pillow image; `up` and `along` are the axis labels."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ModuleNotFoundError:
        raise RenderError("pictures need Pillow: pip install 'hotloop[plot]'") from None
    across, upright = _ranges(lines)
    font = ImageFont.load_default(_TEXT)
    y_ticks = ticks(*upright, 7)
    left = 2 * _GAP + round(max(font.getlength(text) for _, text in y_ticks))
    frame = left, _TOP, _SIZE[0] - _RIGHT, _SIZE[1] - _BOTTOM
    wide, tall = frame[2] - frame[0], frame[3] - frame[1]

    def placed(x: Values | float, y: Values | float) -> tuple[Any, Any]:
        """Return points in pixels of the frame."""
        return (
            (x - across[0]) / (across[1] - across[0]) * wide,
            (upright[1] - y) / (upright[1] - upright[0]) * tall,
        )

    image = Image.new("RGB", _SIZE, _PAPER)
    draw = ImageDraw.Draw(image)
    x_ticks = ticks(*across, 8)
    image.paste(_inside(lines, (wide, tall), placed, x_ticks, y_ticks), frame[:2])
    for value, text in y_ticks:
        draw.text((left - _GAP, _TOP + placed(0.0, value)[1]), text, fill=GREY, font=font, anchor="rm")
    for value, text in x_ticks:
        draw.text((left + placed(value, 0.0)[0], frame[3] + _GAP), text, fill=GREY, font=font, anchor="mt")
    draw.line((left, _TOP, left, frame[3], frame[2], frame[3]), fill=GREY)
    draw.text((left, _TOP - _GAP), up, fill=INK, font=font, anchor="lb")
    draw.text(((left + frame[2]) / 2, _SIZE[1] - _GAP), along, fill=INK, font=font, anchor="mb")
    _legend(image, draw, font, lines, frame, placed)
    return image


def _ranges(lines: Sequence[ChartLine]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ranges of both axes."""
    x = np.concatenate([part for line in lines for part in (line.x, *(band.x for band in line.bands))])
    y = np.concatenate(
        [part for line in lines for part in (line.y, *(edge for band in line.bands for edge in (band.low, band.high)))]
    )
    low, high = _range(y)
    room = 0.04 * (high - low)
    return _range(x), (low - room, high + room)


def _range(values: Values) -> tuple[float, float]:
    """Range of the values; a constant lies in the middle."""
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high))
    if high - low > max(1e-9 * size, 1e-290):
        return low, high
    room = 0.1 * size if size > 1e-280 else 1.0
    return low - room, high + room


def _inside(
    lines: Sequence[ChartLine],
    size: tuple[int, int],
    placed: Any,
    x_ticks: Sequence[tuple[float, str]],
    y_ticks: Sequence[tuple[float, str]],
) -> Any:
    """Draw bands and lines inside the frame."""
    from PIL import Image, ImageDraw

    wide, tall = size[0] * _OVER, size[1] * _OVER
    large = Image.new("RGB", (wide, tall), _PAPER)
    draw = ImageDraw.Draw(large)
    for value, _ in x_ticks:
        at = _OVER * placed(value, 0.0)[0]
        draw.line((at, 0, at, tall), fill=PALE, width=_OVER)
    for value, _ in y_ticks:
        at = _OVER * placed(0.0, value)[1]
        draw.line((0, at, wide, at), fill=PALE, width=_OVER)

    def points(x: Values, y: Values) -> list[float]:
        found: list[float] = (np.stack(placed(x, y), axis=-1) * _OVER).ravel().tolist()
        return found

    for index, line in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        for band in line.bands:
            outline = points(np.concatenate([band.x, band.x[::-1]]), np.concatenate([band.low, band.high[::-1]]))
            if len(outline) < 6:
                continue
            # Bands are translucent, and visible even where they have no height.
            share = Image.new("L", (wide, tall))
            cover = ImageDraw.Draw(share)
            cover.polygon(outline, fill=70)
            cover.line(outline, fill=110, width=_OVER + 1)
            large.paste(colour, mask=share)
    for index, line in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        through = points(line.x, line.y)
        if len(through) > 2:
            draw.line(through, fill=colour, width=_LINE * _OVER, joint="curve")
        else:
            x, y = through
            draw.ellipse((x - 4 * _OVER, y - 4 * _OVER, x + 4 * _OVER, y + 4 * _OVER), fill=colour)
    return large.reduce(_OVER)


def _legend(
    image: Any, draw: Any, font: Any, lines: Sequence[ChartLine], frame: tuple[int, int, int, int], placed: Any
) -> None:
    """Draw the legend in the corner where it hides least."""
    from PIL import Image

    titles = [_shortened(line.title, font, (frame[2] - frame[0]) // 2) for line in lines]
    high = round(1.5 * _TEXT)
    wide = round(max(map(font.getlength, titles))) + 3 * _GAP + 28
    tall = high * len(titles) + _GAP
    right, bottom = frame[2] - frame[0] - wide - _GAP, frame[3] - frame[1] - tall - _GAP
    corners = [(right, bottom), (right, _GAP), (_GAP, _GAP), (_GAP, bottom)]

    def hidden(corner: tuple[int, int]) -> int:
        places = (placed(line.x, line.y) for line in lines)
        return sum(
            int(np.sum((corner[0] < x) & (x < corner[0] + wide) & (corner[1] < y) & (y < corner[1] + tall)))
            for x, y in places
        )

    x, y = min(corners, key=hidden)
    x, y = x + frame[0], y + frame[1]
    image.paste(_PAPER, (x, y), Image.new("L", (wide, tall), 215))
    draw.rectangle((x, y, x + wide, y + tall), outline=PALE)
    for index, title in enumerate(titles):
        middle = y + _GAP // 2 + high * index + high // 2
        colour = COLOURS[index % len(COLOURS)]
        draw.line((x + _GAP, middle, x + _GAP + 28, middle), fill=colour, width=3)
        draw.text((x + 2 * _GAP + 28, middle), title, fill=INK, font=font, anchor="lm")


def _shortened(title: str, font: Any, most: int) -> str:
    if font.getlength(title) <= most:
        return title
    while title and font.getlength(title + "...") > most:
        title = title[:-1]
    return title + "..."


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round numbers between two, no more than so many steps, and how they are written.

    >>> [text for _, text in ticks(0, 81920, 5)]
    ['0', '20 k', '40 k', '60 k', '80 k']
    >>> [text for _, text in ticks(-0.62, 0.11, 5)]
    ['-0.6', '-0.4', '-0.2', '0.0']
    """
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * times for times in (1, 2, 5, 10) if unit * times >= rough * (1 - 1e-9))
    values = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    largest = max(map(abs, values), default=0.0)
    if 0 < largest < 1e-3 or largest >= 1e13:
        return [(value, f"{value:.10g}") for value in values]
    scale, prefix = next(((size, prefix) for size, prefix in PREFIXES if largest >= max(size, 1e4)), (1.0, ""))
    digits = max(0, -math.floor(math.log10(step / scale) + 1e-9))
    return [(value, f"{value / scale:.{digits}f}{prefix}" if value else f"{0:.{digits}f}") for value in values]
