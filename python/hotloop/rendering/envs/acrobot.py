"""`acrobot`: two links that hang from a bar, and the line their tip must get above."""

import math

from hotloop.envs.scene import Scene
from hotloop.rendering.drawing import BLUE, GREEN, GREY, INK, ORANGE, YELLOW, Drawing

ACTIONS = ("turn back", "rest", "turn on")
PACE = 15.0


def draw(scene: Scene) -> Drawing:
    """The line, the bar, both links, and the joint that turns."""
    drawing = Drawing((-2.3, -2.3, 2.3, 2.3))
    drawing.line((-2.3, 1.0), (2.3, 1.0), width=0.04, colour=GREEN)
    drawing.line((-0.6, 0.0), (0.6, 0.0), width=0.05, colour=GREY)
    first = scene.number("theta1")
    second = first + scene.number("theta2")
    elbow = (math.sin(first), -math.cos(first))
    tip = (elbow[0] + math.sin(second), elbow[1] - math.cos(second))
    drawing.line((0.0, 0.0), elbow, width=0.2, colour=BLUE)
    drawing.line(elbow, tip, width=0.16, colour=ORANGE)
    drawing.disc((0.0, 0.0), 0.12, INK)
    turning = scene.actions is not None and int(scene.actions[0]) != 1
    drawing.disc(elbow, 0.12, INK if turning else YELLOW)
    return drawing
