"""`pendulum`: a rod that turns about its end, and the torque on it."""

import math

from hotloop.envs.scene import Scene
from hotloop.rendering.drawing import GREY, INK, ORANGE, PALE, RED, Drawing

PACE = 20.0
_MOST_TORQUE = 2.0


def draw(scene: Scene) -> Drawing:
    """The rod, upright when the angle is 0, and an arc that grows with the torque."""
    drawing = Drawing((-1.45, -1.45, 1.45, 1.45))
    circle = [_on(1.25, i * math.pi / 40) for i in range(81)]
    drawing.line(*circle, width=0.015, colour=PALE)
    drawing.line(_on(1.2, 0.0), _on(1.3, 0.0), width=0.03, colour=GREY)
    angle = scene.number("theta")
    drawing.line((0.0, 0.0), _on(1.0, angle), width=0.2, colour=ORANGE)
    drawing.disc((0.0, 0.0), 0.06, INK)
    if scene.actions is not None:
        share = float(scene.actions.ravel()[0]) / _MOST_TORQUE
        share = max(-1.0, min(1.0, share))
        if abs(share) > 0.02:
            # Against the clock is positive, as for the angle.
            arc = [_on(0.45, angle + share * 2.2 * i / 16) for i in range(17)]
            drawing.line(*arc[:-3], width=0.04, colour=RED)
            drawing.arrow(arc[-4], arc[-1], 0.04, RED)
    return drawing


def _on(radius: float, angle: float) -> tuple[float, float]:
    return -radius * math.sin(angle), radius * math.cos(angle)
