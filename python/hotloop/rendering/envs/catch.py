"""`catch`: the picture itself, with the ball where it is; a ring says that it cannot be seen there."""

from hotloop.envs.scene import Scene
from hotloop.rendering.board import board, middle
from hotloop.rendering.drawing import BLUE, GREEN, GREY, ORANGE, PALE, RED, Drawing, blend

ACTIONS = ("left", "stay", "right")
PACE = 6.0


def draw(scene: Scene) -> Drawing:
    """The ball orange, the paddle blue: green when it has caught the ball, red when it has not."""
    height, width = scene.options["height"], scene.options["width"]
    row, column, paddle = _places(scene)
    seen = range(scene.options["visible"] or height)
    light = blend(PALE, (255, 255, 255), 0.6)
    drawing = board(height, width, [light if square // width in seen else PALE for square in range(height * width)])
    x, y = middle((height - 1) * width + paddle, height, width)
    landed = row == height - 1
    drawing.box(x - 0.48, y - 0.3, x + 0.48, y - 0.05, BLUE if not landed else GREEN if column == paddle else RED)
    at = middle(row * width + column, height, width)
    drawing.disc(at, 0.3, ORANGE if row in seen else GREY)
    if row not in seen:
        drawing.disc(at, 0.22, PALE)
    return drawing


def text(scene: Scene) -> str:
    """A ball is o, or ( ) where it cannot be seen, and the paddle =."""
    height, width = scene.options["height"], scene.options["width"]
    row, column, paddle = _places(scene)
    cells = [" · "] * (height * width)
    cells[(height - 1) * width + paddle] = "==="
    hidden = row >= (scene.options["visible"] or height)
    caught = row == height - 1 and column == paddle
    cells[row * width + column] = "=o=" if caught else "( )" if hidden else " o "
    return "\n".join("".join(cells[i : i + width]).rstrip() for i in range(0, len(cells), width))


def _places(scene: Scene) -> tuple[int, int, int]:
    """The ball's row and column, and the paddle's column."""
    row, column = (int(place) for place in scene.state["ball"])
    return row, column, scene.whole("paddle")
