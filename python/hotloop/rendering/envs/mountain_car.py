"""`mountain-car`: a car in a valley, and the flag it must get to."""

import math

from hotloop.envs.scene import Scene
from hotloop.rendering.drawing import BLUE, GREEN, INK, RED, SKY, Drawing, Point, blend

ACTIONS = ("push left", "coast", "push right")
PACE = 30.0
_LEFT, _RIGHT, _GOAL = -1.2, 0.6, 0.5


def draw(scene: Scene) -> Drawing:
    """The hills, the flag, and the car on the slope."""
    drawing = Drawing((_LEFT, -0.25, _RIGHT, 1.25), paper=SKY)
    ridge = [_ground(_LEFT + (_RIGHT - _LEFT) * i / 80) for i in range(81)]
    drawing.polygon((_LEFT, -0.25), *ridge, (_RIGHT, -0.25), colour=blend(GREEN, SKY, 0.6))
    drawing.line(*ridge, width=0.02, colour=blend(GREEN, INK, 0.4))
    foot = _ground(_GOAL)
    top = (foot[0], foot[1] + 0.22)
    drawing.line(foot, top, width=0.012, colour=INK)
    drawing.polygon(top, (top[0] + 0.09, top[1] - 0.04), (top[0], top[1] - 0.08), colour=RED)

    position = scene.number("position")
    x, y = _ground(position)
    slope = math.atan(0.45 * 3.0 * math.cos(3.0 * position))
    along, up = (math.cos(slope), math.sin(slope)), (-math.sin(slope), math.cos(slope))

    def at(forward: float, above: float) -> Point:
        return x + forward * along[0] + above * up[0], y + forward * along[1] + above * up[1]

    drawing.polygon(at(-0.09, 0.035), at(0.09, 0.035), at(0.085, 0.08), at(-0.085, 0.08), colour=BLUE)
    drawing.polygon(at(-0.05, 0.08), at(0.05, 0.08), at(0.03, 0.115), at(-0.035, 0.115), colour=blend(BLUE, SKY, 0.4))
    for wheel in (-0.05, 0.05):
        drawing.disc(at(wheel, 0.03), 0.028, INK)
    if scene.actions is not None and (push := int(scene.actions[0]) - 1):
        drawing.arrow(at(push * 0.11, 0.06), at(push * 0.21, 0.06), 0.015, INK)
    return drawing


def _ground(x: float) -> Point:
    return x, 0.45 * math.sin(3.0 * x) + 0.55
