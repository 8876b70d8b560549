"""Drawings as pixels."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.errors import RenderError
from hotloop.rendering.drawing import Disc, Drawing, Line, Point, Polygon

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The longer side; both sides are even, as video codecs want them.
_SIDE: Final = 480
# Supersampling factor for smooth edges.
_OVER: Final = 3


def pixels(drawing: Drawing) -> NDArray[np.uint8]:
    """Render a drawing as an RGB array of shape (height, width, 3)."""
    try:
        from PIL import Image, ImageDraw
    except ModuleNotFoundError:
        raise RenderError("pictures need Pillow: pip install 'hotloop[video]'") from None
    left, bottom, right, top = drawing.bounds
    scale = _SIDE * _OVER / max(right - left, top - bottom)
    size = [2 * round((end - start) * scale / (2 * _OVER)) for start, end in ((left, right), (bottom, top))]
    image = Image.new("RGB", (size[0] * _OVER, size[1] * _OVER), drawing.paper)
    draw = ImageDraw.Draw(image)

    def at(point: Point) -> Point:
        return (point[0] - left) * scale, (top - point[1]) * scale

    def disc(centre: Point, radius: float, colour: Any) -> None:
        x, y = centre
        radius = max(0.0, radius)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)

    for shape in drawing.shapes:
        if isinstance(shape, Line):
            points = [at(point) for point in shape.points]
            draw.line(points, fill=shape.colour, width=max(1, round(shape.width * scale)), joint="curve")
            for end in (points[0], points[-1]):
                disc(end, shape.width * scale / 2 - 1, shape.colour)
        elif isinstance(shape, Disc):
            disc(at(shape.centre), shape.radius * scale, shape.colour)
        elif isinstance(shape, Polygon):
            draw.polygon([at(point) for point in shape.points], fill=shape.colour)
        else:
            draw.text(at(shape.at), shape.text, fill=shape.colour, font=_font(round(shape.height * scale)), anchor="mm")
    return np.asarray(image.resize((size[0], size[1]), Image.Resampling.BOX))


@lru_cache(maxsize=32)
def _font(height: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(max(1, height))
