"""`cartpole`: a cart on a rail, with a pole on it."""

import math

from hotloop.envs.scene import Scene
from hotloop.rendering.drawing import BLUE, GREY, INK, ORANGE, YELLOW, Drawing

ACTIONS = ("push left", "push right")
PACE = 50.0
# The episode ends where the cart gets so far from the middle.
_FAR = 2.4


def draw(scene: Scene) -> Drawing:
    """The rail with its ends, the cart, the pole, and the push."""
    drawing = Drawing((-3.0, -0.6, 3.0, 2.1))
    drawing.line((-3.0, 0.0), (3.0, 0.0), width=0.03, colour=GREY)
    for end in (-_FAR, _FAR):
        drawing.line((end, -0.12), (end, 0.12), width=0.05, colour=GREY)
    x, angle = scene.number("x"), scene.number("theta")
    for wheel in (-0.22, 0.22):
        drawing.disc((x + wheel, 0.07), 0.09, INK)
    drawing.box(x - 0.4, 0.08, x + 0.4, 0.38, BLUE)
    # The option is half the pole's length; a very long one is drawn as far as there is room.
    length = min(2.0 * scene.options["length"], 1.6)
    tip = (x + length * math.sin(angle), 0.38 + length * math.cos(angle))
    drawing.line((x, 0.38), tip, width=0.12, colour=ORANGE)
    drawing.disc((x, 0.38), 0.08, YELLOW)
    if scene.actions is not None:
        side = 1.0 if int(scene.actions[0]) else -1.0
        drawing.arrow((x - side * 0.95, 0.23), (x - side * 0.48, 0.23), 0.07, INK)
    return drawing
