"""Drawings as text: dark areas become dots, eight of which form a Braille character."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from hotloop.rendering.drawing import Colour, Disc, Label, Line, Point, Polygon

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.rendering.drawing import Drawing

_COLUMNS: Final = 60
_LINES: Final = 20
# Bit of each dot of a character: four rows of two.
_BITS: Final = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BLANK: Final = 0x2800


def dots(drawing: Drawing) -> str:
    """Render a drawing in at most 60 columns and 20 lines."""
    left, bottom, right, top = drawing.bounds
    size = max((right - left) / (2 * _COLUMNS), (top - bottom) / (4 * _LINES))
    columns, lines = (max(1, round(extent / size)) for extent in ((right - left) / 2, (top - bottom) / 4))
    x = left + (np.arange(2 * columns) + 0.5) * size
    y = top - (np.arange(4 * lines) + 0.5) * size
    places = np.stack(np.broadcast_arrays(x[None, :], y[:, None]), -1)
    dark = np.zeros(places.shape[:2], np.bool_)
    labels = []
    for shape in drawing.shapes:
        if isinstance(shape, Label):
            labels.append(shape)
            continue
        if isinstance(shape, Line):
            # At least as thick as a dot, so that no part falls between dots.
            reach = max(shape.width, size) / 2
            covered = _distance(places, shape.points) <= reach
        elif isinstance(shape, Disc):
            covered = np.linalg.norm(places - shape.centre, axis=-1) <= shape.radius
        else:
            covered = _inside(places, shape)
        dark = np.where(covered, _is_dark(shape.colour), dark)
    blocks = dark.reshape(lines, 4, columns, 2).transpose(0, 2, 1, 3)
    codes = _BLANK + (blocks * _BITS).sum((2, 3))
    rows = [[chr(code) if code != _BLANK else " " for code in row] for row in codes]
    for label in labels:
        column = round((label.at[0] - left) / (2 * size) - len(label.text) / 2)
        line = min(lines - 1, max(0, int((top - label.at[1]) / (4 * size))))
        for offset, character in enumerate(label.text):
            if 0 <= column + offset < columns:
                rows[line][column + offset] = character
    return "\n".join("".join(row).rstrip() for row in rows)


def _is_dark(colour: Colour) -> bool:
    red, green, blue = colour
    return 0.3 * red + 0.59 * green + 0.11 * blue < 170


def _distance(places: NDArray[np.float64], points: Sequence[Point]) -> NDArray[np.float64]:
    """Return the distance of each position from a polyline."""
    nearest = np.full(places.shape[:2], np.inf)
    for start, end in pairwise(points):
        along = np.subtract(end, start)
        share = ((places - start) @ along) / max(float(along @ along), 1e-12)
        foot = start + np.clip(share, 0.0, 1.0)[..., None] * along
        nearest = np.minimum(nearest, np.linalg.norm(places - foot, axis=-1))
    return nearest


def _inside(places: NDArray[np.float64], polygon: Polygon) -> NDArray[np.bool_]:
    """Return which positions are inside a polygon, by the even-odd rule."""
    x, y = places[..., 0], places[..., 1]
    odd = np.zeros(places.shape[:2], np.bool_)
    points = list(polygon.points)
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
        if y0 != y1:
            odd ^= ((y0 > y) != (y1 > y)) & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    return odd
