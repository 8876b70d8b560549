"""`cliff-walking`: the way along the cliff."""

from hotloop.envs.scene import Scene
from hotloop.rendering.board import board, figure, marked, middle
from hotloop.rendering.drawing import GREEN, INK, RED, YELLOW, Drawing, blend

ACTIONS = ("up", "right", "down", "left")
PACE = 4.0
_ROWS, _COLUMNS = 4, 12
_TILES = "." * 36 + "S" + "x" * 10 + "G"
_GRASS = blend(GREEN, (255, 255, 255), 0.6)
_COLOURS = {".": _GRASS, "S": blend(_GRASS, YELLOW, 0.5), "x": blend(INK, RED, 0.25), "G": blend(_GRASS, GREEN, 0.5)}


def draw(scene: Scene) -> Drawing:
    """The grass, the cliff, the flag at the goal, and the walker."""
    drawing = board(_ROWS, _COLUMNS, [_COLOURS[tile] for tile in _TILES])
    x, y = middle(_ROWS * _COLUMNS - 1, _ROWS, _COLUMNS)
    drawing.line((x - 0.2, y - 0.35), (x - 0.2, y + 0.35), width=0.05, colour=INK)
    drawing.polygon((x - 0.18, y + 0.36), (x + 0.3, y + 0.2), (x - 0.18, y + 0.04), colour=RED)
    figure(drawing, middle(scene.whole("state"), _ROWS, _COLUMNS), size=0.95)
    return drawing


def text(scene: Scene) -> str:
    """S is the start, x the cliff, G the goal."""
    return marked(_TILES.replace(".", "·"), _COLUMNS, scene.whole("state"))
