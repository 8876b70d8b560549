"""`tictactoe`: the board, with X for whoever moved first."""

from hotloop.envs.scene import Scene
from hotloop.rendering.board import board, middle
from hotloop.rendering.drawing import BLUE, GREY, ORANGE, PAPER, Drawing, blend

ACTIONS = tuple(f"{row} {column}" for row in ("top", "middle", "bottom") for column in ("left", "middle", "right"))
PACE = 1.5
_LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
_MARKS = "·XO"


def draw(scene: Scene) -> Drawing:
    """The board, crosses and rings, and a line through three in a row."""
    marks = [int(mark) for mark in scene.state["board"]]
    drawing = board(3, 3, [PAPER] * 9)
    for square, mark in enumerate(marks):
        x, y = middle(square, 3, 3)
        if mark == 1:
            drawing.line((x - 0.26, y - 0.26), (x + 0.26, y + 0.26), width=0.12, colour=BLUE)
            drawing.line((x - 0.26, y + 0.26), (x + 0.26, y - 0.26), width=0.12, colour=BLUE)
        if mark == 2:
            drawing.disc((x, y), 0.34, ORANGE)
            drawing.disc((x, y), 0.22, PAPER)
    for line in _LINES:
        if marks[line[0]] and len({marks[square] for square in line}) == 1:
            ends = middle(line[0], 3, 3), middle(line[2], 3, 3)
            drawing.line(*ends, width=0.08, colour=blend(GREY, PAPER, 0.1))
    return drawing


def text(scene: Scene) -> str:
    """The board, and who is who."""
    marks = [_MARKS[int(mark)] for mark in scene.state["board"]]
    rows = [f" {marks[i]} │ {marks[i + 1]} │ {marks[i + 2]}" for i in (0, 3, 6)]
    own = _MARKS[scene.whole("mark")]
    seat = "seat 0 plays" if scene.options["opponent"] == "self" else "the policy plays"
    return "\n───┼───┼───\n".join(rows) + f"\n{seat} {own}"
