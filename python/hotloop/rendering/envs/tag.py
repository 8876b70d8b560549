"""`tag`: the grid with its walls, taggers and runners; who was caught lies in grey."""

from hotloop.envs.scene import Scene
from hotloop.rendering.board import board, figure, middle
from hotloop.rendering.drawing import BLUE, GREY, INK, PALE, RED, Drawing, Point, blend

ACTIONS = ("stay", "north", "south", "west", "east")
PACE = 6.0


def draw(scene: Scene) -> Drawing:
    """Walls dark, taggers red, runners blue, each with the number of its seat."""
    size = scene.options["size"]
    ground = [blend(INK, PALE, 0.25) if wall else blend(PALE, (255, 255, 255), 0.6) for wall in scene.state["walls"]]
    drawing = board(size, size, ground)
    taggers, players = _teams(scene)
    standing: dict[int, int] = {}
    # Those who are out first, so that nobody stands behind them.
    for seat in sorted(range(players), key=lambda seat: bool(scene.state["in_play"][seat])):
        in_play = bool(scene.state["in_play"][seat])
        cell = int(scene.state["cell"][seat])
        x, y = middle(cell, size, size)
        shift = 0.16 * standing.setdefault(cell, 0)
        standing[cell] += 1
        at: Point = (x + shift, y - shift / 2)
        colour = (RED if seat < taggers else BLUE) if in_play else blend(GREY, PALE, 0.5)
        figure(drawing, at, colour, 0.95 if in_play else 0.7, str(seat))
    return drawing


def seats(scene: Scene) -> list[Point]:
    """Return the position of every seat."""
    size = scene.options["size"]
    _, players = _teams(scene)
    return [middle(int(scene.state["cell"][seat]), size, size) for seat in range(players)]


def text(scene: Scene) -> str:
    """# is a wall, T a tagger, R a runner, with the numbers of their seats; x was caught there."""
    size = scene.options["size"]
    taggers, players = _teams(scene)
    cells = [" # " if wall else " · " for wall in scene.state["walls"]]
    for seat in sorted(range(players), key=lambda seat: bool(scene.state["in_play"][seat])):
        team = "T" if seat < taggers else "R"
        mark = f"{team}{seat} " if scene.state["in_play"][seat] else f"x{seat} "
        cells[int(scene.state["cell"][seat])] = mark
    return "\n".join("".join(cells[row * size : (row + 1) * size]).rstrip() for row in range(size))


def _teams(scene: Scene) -> tuple[int, int]:
    """Return the numbers of taggers and of all players."""
    players = scene.options["players"] or scene.options["seats"]
    return scene.options["taggers"] or players // 2, players
