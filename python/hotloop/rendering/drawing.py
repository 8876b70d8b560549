"""A drawing as data: shapes in the coordinates of an env's own world, y upwards, later ones on top."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

Point = tuple[float, float]
Colour = tuple[int, int, int]

PAPER: Final = (250, 250, 248)
INK: Final = (38, 42, 51)
GREY: Final = (120, 126, 138)
PALE: Final = (222, 225, 230)
BLUE: Final = (52, 101, 164)
SKY: Final = (205, 226, 245)
ORANGE: Final = (224, 122, 47)
RED: Final = (200, 55, 55)
GREEN: Final = (60, 145, 85)
YELLOW: Final = (242, 196, 64)


@dataclass(frozen=True)
class Line:
    """A line through some points, with round ends."""

    points: Sequence[Point]
    width: float
    colour: Colour


@dataclass(frozen=True)
class Disc:
    """A filled circle."""

    centre: Point
    radius: float
    colour: Colour


@dataclass(frozen=True)
class Polygon:
    """A filled polygon."""

    points: Sequence[Point]
    colour: Colour


@dataclass(frozen=True)
class Label:
    """Text, centred on a point."""

    at: Point
    text: str
    height: float
    colour: Colour


Shape = Line | Disc | Polygon | Label


@dataclass
class Drawing:
    """Shapes within the bounds left, bottom, right and top."""

    bounds: tuple[float, float, float, float]
    paper: Colour = PAPER
    shapes: list[Shape] = field(default_factory=list)

    def line(self, *points: Point, width: float, colour: Colour = INK) -> None:
        """Add a line."""
        self.shapes.append(Line(points, width, colour))

    def disc(self, centre: Point, radius: float, colour: Colour = INK) -> None:
        """Add a filled circle."""
        self.shapes.append(Disc(centre, radius, colour))

    def polygon(self, *points: Point, colour: Colour = INK) -> None:
        """Add a filled polygon."""
        self.shapes.append(Polygon(points, colour))

    def box(self, left: float, bottom: float, right: float, top: float, colour: Colour = INK) -> None:
        """Add a filled rectangle."""
        self.polygon((left, bottom), (right, bottom), (right, top), (left, top), colour=colour)

    def label(self, at: Point, text: str, height: float, colour: Colour = INK) -> None:
        """Add text."""
        self.shapes.append(Label(at, text, height, colour))

    def arrow(self, start: Point, end: Point, width: float, colour: Colour = INK) -> None:
        """Add an arrow; nothing if both ends are the same."""
        length = math.dist(start, end)
        if length == 0.0:
            return
        x, y = (end[0] - start[0]) / length, (end[1] - start[1]) / length
        head = 3.0 * width
        neck = (end[0] - head * x, end[1] - head * y)
        self.line(start, neck, width=width, colour=colour)
        sides = [(neck[0] - s * 0.6 * head * y, neck[1] + s * 0.6 * head * x) for s in (1, -1)]
        self.polygon(end, *sides, colour=colour)


def blend(first: Colour, second: Colour, share: float) -> Colour:
    """Interpolate between two colours: the first at 0, the second at 1."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue
