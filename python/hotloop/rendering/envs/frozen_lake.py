"""`frozen-lake`: the lake from above, with its holes."""

from hotloop.envs.scene import Scene
from hotloop.rendering.board import board, figure, marked, middle
from hotloop.rendering.drawing import BLUE, GREEN, INK, RED, SKY, YELLOW, Drawing, blend

ACTIONS = ("left", "down", "right", "up")
PACE = 4.0
_NAMED = {
    "4x4": "SFFF/FHFH/FFFH/HFFG",
    "8x8": "SFFFFFFF/FFFFFFFF/FFFHFFFF/FFFFFHFF/FFFHFFFF/FHHFFFHF/FHFFHFHF/FFFHFFFG",
}
_ICE = blend(SKY, (255, 255, 255), 0.5)
_COLOURS = {"S": blend(_ICE, YELLOW, 0.3), "F": _ICE, "H": _ICE, "G": blend(_ICE, GREEN, 0.3)}


def draw(scene: Scene) -> Drawing:
    """The ice, its holes, the goal's flag, and where one is."""
    rows = _rows(scene)
    columns = len(rows[0])
    tiles = "".join(rows)
    here = scene.whole("state")
    drawing = board(len(rows), columns, [_COLOURS[tile] for tile in tiles])
    for square, tile in enumerate(tiles):
        x, y = middle(square, len(rows), columns)
        if tile == "H":
            drawing.disc((x, y), 0.38, blend(BLUE, INK, 0.3))
        if tile == "G":
            drawing.line((x - 0.2, y - 0.35), (x - 0.2, y + 0.35), width=0.05, colour=INK)
            drawing.polygon((x - 0.18, y + 0.36), (x + 0.3, y + 0.2), (x - 0.18, y + 0.04), colour=RED)
    fallen = tiles[here] == "H"
    figure(drawing, middle(here, len(rows), columns), size=0.6 if fallen else 0.95)
    return drawing


def text(scene: Scene) -> str:
    """S is the start, o a hole, G the goal."""
    rows = _rows(scene)
    letters = "".join(rows).replace("F", "·").replace("H", "o")
    return marked(letters, len(rows[0]), scene.whole("state"))


def _rows(scene: Scene) -> list[str]:
    name = str(scene.options["map"])
    return _NAMED.get(name, name).split("/")
