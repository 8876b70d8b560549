"""Drawing of boards of squares. A square is one unit wide; rows count from the top."""

from __future__ import annotations

from collections.abc import Sequence

from hotloop.rendering.drawing import INK, ORANGE, PALE, Colour, Drawing, Point, blend

EDGE = 0.2


def board(rows: int, columns: int, colours: Sequence[Colour]) -> Drawing:
    """A board with a colour for each square, row by row."""
    drawing = Drawing((-EDGE, -EDGE, columns + EDGE, rows + EDGE))
    drawing.box(-0.04, -0.04, columns + 0.04, rows + 0.04, blend(PALE, INK, 0.25))
    for square, colour in enumerate(colours):
        x, y = middle(square, rows, columns)
        drawing.box(x - 0.48, y - 0.48, x + 0.48, y + 0.48, colour)
    return drawing


def middle(square: int, rows: int, columns: int) -> Point:
    """Return the centre of a square."""
    row, column = divmod(square, columns)
    return column + 0.5, rows - row - 0.5


def figure(drawing: Drawing, at: Point, colour: Colour = ORANGE, size: float = 1.0, text: str = "") -> None:
    """Draw a person from the front, with a label."""
    x, y = at
    shoulder, foot, half = y + 0.10 * size, y - 0.32 * size, 0.22 * size
    drawing.disc((x, shoulder - 0.5 * half), half, colour)
    drawing.box(x - half, foot, x + half, shoulder - 0.5 * half, colour)
    drawing.disc((x, y + 0.26 * size), 0.15 * size, blend(colour, (255, 255, 255), 0.45))
    if text:
        drawing.label((x, y - 0.12 * size), text, 0.26 * size, (255, 255, 255))


def marked(letters: Sequence[str], columns: int, here: int) -> str:
    """Return a board of letters as text, with brackets around one."""
    squares = [f"[{letter}]" if square == here else f" {letter} " for square, letter in enumerate(letters)]
    return "\n".join("".join(squares[i : i + columns]).rstrip() for i in range(0, len(squares), columns))
