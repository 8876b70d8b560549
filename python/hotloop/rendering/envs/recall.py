"""`recall`: what the env knows (the cue), what it shows (the cue once, then nothing), and the answer."""

import numpy as np

from hotloop.envs.scene import Scene
from hotloop.rendering.drawing import BLUE, GREEN, GREY, INK, ORANGE, PALE, RED, YELLOW, Drawing, blend

PACE = 4.0
_COLOURS = (BLUE, ORANGE, GREEN, YELLOW, RED, GREY)
# Symbols are written as letters, and as numbers where those do not suffice.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def draw(scene: Scene) -> Drawing:
    """The cue on a card that is turned over after the first step, a bar for the time, and the answer."""
    cue, time, due = _cue(scene), scene.whole("time"), scene.options["delay"] + 1
    width = max(3.0, 1.1 * len(cue) + 0.4)
    drawing = Drawing((-width / 2, -2.0, width / 2, 1.4))
    answer = _answer(scene) if time > due else None
    _cards(drawing, cue, 0.55, hidden=0 < time <= due)
    drawing.box(-width / 2 + 0.3, -0.33, width / 2 - 0.3, -0.21, PALE)
    done = (width - 0.6) * min(1.0, time / due)
    drawing.box(-width / 2 + 0.3, -0.33, -width / 2 + 0.3 + done, -0.21, INK)
    if time == 0:
        drawing.label((0.0, -1.15), "remember", 0.35, GREY)
    elif answer is not None:
        _cards(drawing, answer, -1.15, hidden=False)
        for i, (said, right) in enumerate(zip(answer, cue, strict=True)):
            x = (i - (len(cue) - 1) / 2) * 1.1
            drawing.box(x - 0.45, -1.85, x + 0.45, -1.75, GREEN if said == right else RED)
    elif time == due:
        drawing.label((0.0, -1.15), "answer", 0.35, INK)
    return drawing


def text(scene: Scene) -> str:
    """The cue, what is shown of it, and the answer when it was given."""
    time, due = scene.whole("time"), scene.options["delay"] + 1
    cue = " ".join(map(_name, _cue(scene)))
    shown = cue if time == 0 else "answer!" if time == due else "-"
    lines = [f"cue    {cue}", f"shown  {shown}", f"time   {min(time, due)} of {due}"]
    answer = _answer(scene) if time > due else None
    lines.append("answer " + (" ".join(map(_name, answer)) if answer is not None else "-"))
    return "\n".join(lines)


def _cards(drawing: Drawing, symbols: list[int], y: float, *, hidden: bool) -> None:
    for i, symbol in enumerate(symbols):
        x = (i - (len(symbols) - 1) / 2) * 1.1
        drawing.box(x - 0.45, y - 0.55, x + 0.45, y + 0.55, INK)
        colour = _COLOURS[symbol % len(_COLOURS)]
        drawing.box(x - 0.42, y - 0.52, x + 0.42, y + 0.52, GREY if hidden else blend(colour, (255, 255, 255), 0.55))
        drawing.label((x, y), "?" if hidden else _name(symbol), 0.6, INK)


def _cue(scene: Scene) -> list[int]:
    return [int(symbol) for symbol in np.ravel(scene.state["cue"])]


def _answer(scene: Scene) -> list[int] | None:
    return None if scene.actions is None else [int(choice) for choice in np.ravel(scene.actions)]


def _name(symbol: int) -> str:
    return _LETTERS[symbol] if symbol < len(_LETTERS) else str(symbol)
