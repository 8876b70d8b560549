"""`taxi`: the town with its four stands and walls."""

from hotloop.envs.scene import Scene
from hotloop.rendering.board import board, figure, middle
from hotloop.rendering.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    RED,
    YELLOW,
    Drawing,
    blend,
)

ACTIONS = ("south", "north", "east", "west", "pick up", "drop off")
PACE = 4.0
_SIDE = 5
_STANDS = {"R": (0, RED), "G": (4, GREEN), "Y": (20, YELLOW), "B": (23, BLUE)}
_IN_TAXI = 4
# Squares with a wall on their east side.
_WALLS = (1, 6, 15, 17, 20, 22)


def draw(scene: Scene) -> Drawing:
    """The stands, the walls, the taxi, the passenger, and a ring around the stand where the ride must end."""
    taxi, passenger, destination = _places(scene)
    drawing = board(_SIDE, _SIDE, [PALE] * _SIDE**2)
    for stand, (letter, (square, colour)) in enumerate(_STANDS.items()):
        x, y = middle(square, _SIDE, _SIDE)
        drawing.box(x - 0.48, y - 0.48, x + 0.48, y + 0.48, blend(PALE, colour, 0.55))
        if stand == destination:
            corners = [(x - 0.4, y - 0.4), (x + 0.4, y - 0.4), (x + 0.4, y + 0.4), (x - 0.4, y + 0.4)]
            drawing.line(*corners, corners[0], width=0.07, colour=INK)
        drawing.label((x - 0.24, y + 0.22), letter, 0.24, INK)
    for square in _WALLS:
        x, y = middle(square, _SIDE, _SIDE)
        drawing.line((x + 0.5, y - 0.46), (x + 0.5, y + 0.46), width=0.1, colour=INK)
    if passenger != _IN_TAXI:
        square, _ = list(_STANDS.values())[passenger]
        x, y = middle(square, _SIDE, _SIDE)
        figure(drawing, (x + 0.14, y), ORANGE, 0.75)
    x, y = middle(taxi, _SIDE, _SIDE)
    drawing.box(x - 0.36, y - 0.2, x + 0.36, y + 0.05, YELLOW if passenger != _IN_TAXI else ORANGE)
    roof = [(x - 0.22, y + 0.05), (x - 0.14, y + 0.24), (x + 0.14, y + 0.24), (x + 0.22, y + 0.05)]
    drawing.polygon(*roof, colour=blend(GREY, PALE, 0.3))
    drawing.box(x - 0.08, y + 0.24, x + 0.08, y + 0.32, INK)
    for wheel in (-0.2, 0.2):
        drawing.disc((x + wheel, y - 0.2), 0.09, INK)
    return drawing


def text(scene: Scene) -> str:
    """The town in letters; [ ] is the taxi, and what it carries or is to do stands below."""
    taxi, passenger, destination = _places(scene)
    names = {square: letter for letter, (square, _) in _STANDS.items()}
    lines = ["+" + "-" * (4 * _SIDE - 1) + "+"]
    for row in range(_SIDE):
        line = "|"
        for square in range(row * _SIDE, (row + 1) * _SIDE):
            letter = names.get(square, "·")
            line += f"[{letter}]" if square == taxi else f" {letter} "
            line += "|" if square in _WALLS or square % _SIDE == _SIDE - 1 else " "
        lines.append(line)
    lines.append(lines[0])
    letters = list(_STANDS)
    where = "in the taxi" if passenger == _IN_TAXI else f"at {letters[passenger]}"
    return "\n".join([*lines, f"passenger {where}, to {letters[destination]}"])


def _places(scene: Scene) -> tuple[int, int, int]:
    """The taxi's square, the passenger's place, and where they want to go."""
    rest, destination = divmod(scene.whole("state"), len(_STANDS))
    taxi, passenger = divmod(rest, len(_STANDS) + 1)
    return taxi, passenger, destination
