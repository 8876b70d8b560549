"""`cage2`: every host as it is (left) and as blue believes it to be (right), with decoys and the last actions."""

from __future__ import annotations

import numpy as np

from hotloop.envs.cage2.network import HOSTS, RED_ACTIONS, RED_AGENTS, SUBNETS, blue_action_name
from hotloop.envs.scene import Scene
from hotloop.rendering.drawing import BLUE, GREEN, GREY, INK, ORANGE, PALE, RED, YELLOW, Colour, Drawing, blend

PACE = 2.0
_TRUE = ("clean", "user", "privileged")
_TRUE_COLOURS = (GREEN, ORANGE, RED)
_BELIEVED = ("clean", "user", "unknown", "privileged")
_BELIEVED_COLOURS = (GREEN, ORANGE, YELLOW, RED)
_ACTIVITY = ("", "scan", "exploit")
_ACTIVITY_COLOURS = (None, BLUE, RED)
_RESULT = ("failed", "succeeded", "")
_SWEEP = 1
# Columns of the picture, top to bottom.
_COLUMNS = ((8, 9, 10, 11, 12), (0, 1, 2, 3), (4, 5, 6, 7))
_OP_SERVER = 7


def draw(scene: Scene) -> Drawing:
    """A column per subnet: User, Enterprise, Operational."""
    drawing = Drawing((-0.1, -1.05, 9.1, 6.7))
    drawing.label((4.5, 6.4), "left: true   right: believed", 0.24, GREY)
    access, belief, decoys, activity = _hosts(scene)
    for column, hosts in enumerate(_COLUMNS):
        left = 3.0 * column
        drawing.box(left + 0.1, 0.0, left + 2.9, 5.55, blend(PALE, (255, 255, 255), 0.4))
        drawing.label((left + 1.5, 5.8), SUBNETS[column], 0.3, INK)
        for place, host in enumerate(hosts):
            bottom = 4.55 - 1.08 * place
            edge = _ACTIVITY_COLOURS[activity[host]]
            if edge is not None:
                drawing.box(left + 0.22, bottom - 0.08, left + 2.78, bottom + 0.98, edge)
            _host(drawing, left + 0.3, bottom, _TRUE_COLOURS[access[host]], _BELIEVED_COLOURS[belief[host]])
            drawing.label((left + 1.5, bottom + 0.62), HOSTS[host], 0.27, INK)
            for decoy in range(decoys[host]):
                drawing.disc((left + 1.14 + 0.24 * decoy, bottom + 0.22), 0.09, BLUE)
            if host == _OP_SERVER:
                up = scene.whole("ot_up") != 0
                drawing.label((left + 2.4, bottom + 0.22), "OT", 0.24, INK if up else RED)
                if not up:
                    drawing.line((left + 2.15, bottom + 0.1), (left + 2.65, bottom + 0.36), width=0.05, colour=RED)
    drawing.label((4.5, -0.3), _red_words(scene), 0.26, RED)
    drawing.label((4.5, -0.75), _blue_words(scene), 0.26, BLUE)
    return drawing


def _host(drawing: Drawing, left: float, bottom: float, true: Colour, believed: Colour) -> None:
    drawing.box(left, bottom, left + 1.2, bottom + 0.9, blend(true, (255, 255, 255), 0.35))
    drawing.box(left + 1.2, bottom, left + 2.4, bottom + 0.9, blend(believed, (255, 255, 255), 0.35))
    drawing.line((left + 1.2, bottom), (left + 1.2, bottom + 0.9), width=0.03, colour=GREY)


def text(scene: Scene) -> str:
    """A line per host: what is true, what blue believes, decoys, and what was seen in this step."""
    access, belief, decoys, activity = _hosts(scene)
    length = scene.whole("length")
    of = f" of {length}" if length else ""
    ot = "runs" if scene.whole("ot_up") else "is down"
    lines = [
        f"step {scene.whole('time')}{of}, red agent {RED_AGENTS[scene.whole('red')]}, the OT service {ot}",
        f"{'host':<12} {'true':<11} {'believed':<11} {'decoys':<7} seen",
    ]
    lines += (
        f"{name:<12} {_TRUE[access[host]]:<11} {_BELIEVED[belief[host]]:<11} {'o' * decoys[host]:<7} "
        f"{_ACTIVITY[activity[host]]}".rstrip()
        for host, name in enumerate(HOSTS)
    )
    return "\n".join([*lines, _blue_words(scene), _red_words(scene)])


def _hosts(scene: Scene) -> tuple[list[int], list[int], list[int], list[int]]:
    """Access, belief, number of decoys and activity of every host."""
    state = scene.state
    user = (state["removable"] != 0) | (state["sticky"] != 0)
    access = np.where(state["privileged"] != 0, 2, user)
    decoys = [int(ports).bit_count() for ports in state["decoys"].ravel()]
    return access.ravel().tolist(), state["belief"].ravel().tolist(), decoys, state["activity"].ravel().tolist()


def _red_words(scene: Scene) -> str:
    kind, target, success, *_ = (int(number) for number in scene.state["red_action"].ravel())
    if target < 0:
        return f"red: {RED_ACTIONS[kind]}"
    name = SUBNETS[target] if kind == _SWEEP else HOSTS[target]
    return f"red: {RED_ACTIONS[kind]} {name}, {_RESULT[success]}"


def _blue_words(scene: Scene) -> str:
    if scene.actions is None:
        return "blue: -"
    return f"blue: {blue_action_name(int(scene.actions.ravel()[0]), scene.options['actions'])}"
