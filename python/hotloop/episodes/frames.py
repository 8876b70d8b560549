"""Episodes as drawing data: the shapes of a whole episode in one table, and for each moment those that are on it.

It is the drawing that the terminal and videos show, so that no env is drawn twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop import rendering
from hotloop.envs.registry import is_native
from hotloop.envs.spec import DiscreteAction
from hotloop.policies.protocol import ActRequest
from hotloop.rendering.drawing import PAPER, Disc, Drawing, Label, Line, Polygon, Shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.episodes.episode import Chooser, Episode
    from hotloop.episodes.replay import Replay
    from hotloop.policies.policy import Policy

# Indices of shapes that an episode may have altogether.
_MOST_INDICES: Final = 3_000_000


@dataclass
class Insight:
    """The policy's outputs at each step, by seat."""

    values: list[list[float | None]] = field(default_factory=list)
    probabilities: list[list[list[float] | None]] = field(default_factory=list)


def watched_actor(policy: Policy, episode: Episode, insight: Insight, *, deterministic: bool) -> Chooser:
    """The policy's actions, with its values and action probabilities kept in `insight`."""
    memory = np.zeros((episode.seats, policy.learner.memory_len), np.float32)

    def choose(obs: NDArray[Any], mask: NDArray[np.int8] | None, step: int) -> NDArray[Any]:
        common = {"seed": episode.seed, "step": step, "first_row": episode.index * episode.seats}
        before = memory.copy()
        request = ActRequest(obs, mask, deterministic=deterministic, state=memory, valid=episode.valid, **common)
        actions, _, values = policy.learner.act(request)
        deciding = np.ones(episode.seats, np.bool_) if episode.valid is None else episode.valid
        if values is not None:
            seats = zip(values.tolist(), deciding.tolist(), strict=True)
            insight.values.append([value if decides and math.isfinite(value) else None for value, decides in seats])
            if isinstance(episode.spec.action, DiscreteAction):
                insight.probabilities.append(_probabilities(policy, obs, mask, before, deciding))
        return actions

    return choose


def _probabilities(
    policy: Policy,
    obs: NDArray[Any],
    mask: NDArray[np.int8] | None,
    memory: NDArray[np.float32],
    deciding: NDArray[np.bool_],
) -> list[list[float] | None]:
    """Probabilities of all actions, from those of the most probable one beside each other one alone."""
    (count,) = policy.spec.action.choices
    found: list[list[float] | None] = []
    for seat, decides in enumerate(deciding.tolist()):
        if not decides:
            found.append(None)
            continue
        allowed = np.ones(count, np.int8) if mask is None else (mask[seat] != 0).astype(np.int8)
        one = slice(seat, seat + 1)
        best, _, _ = policy.learner.act(
            ActRequest(obs[one], allowed[None], deterministic=True, state=memory[one].copy())
        )
        mode = int(best[0])
        pairs = np.eye(count, dtype=np.int8)
        pairs[:, mode] = 1
        pairs *= allowed
        request = ActRequest(
            np.repeat(obs[one], count, axis=0),
            pairs,
            deterministic=True,
            state=np.repeat(memory[one], count, axis=0),
        )
        _, logarithms, _ = policy.learner.act(request)
        # Of two actions with probabilities p and q, the likelier has p / (p + q).
        ratios = np.expm1(-np.asarray(logarithms, np.float64)).clip(0.0) * allowed
        ratios[mode] = 1.0
        found.append([round(share, 5) for share in (ratios / ratios.sum()).tolist()])
    return found


class FrameRecorder:
    """A recorder of an episode's frames while it is played."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        native = is_native(episode.env)
        renderer = rendering.renderer(episode.env) if native else None
        self._draw = getattr(renderer, "draw", None)
        self._seats = getattr(renderer, "seats", None)
        self._seat_at: list[list[tuple[float, float]]] = []
        self._has_text = not native or hasattr(renderer, "text")
        self._table: dict[tuple[Any, ...], int] = {}
        self._frames: list[list[int]] = []
        self._texts: list[str] = []
        self._states: list[dict[str, Any]] = []
        self._bounds: tuple[float, float, float, float] | None = None
        self._paper = PAPER
        self._digits = 4
        self._indices = 0

    def take(self) -> None:
        """Take the current moment."""
        episode = self._episode
        if self._draw is not None:
            scene = episode.scene()
            self._take_drawing(self._draw(scene))
            if self._seats is not None:
                self._seat_at.append([self._point(at) for at in self._seats(scene)])
        elif self._has_text:
            self._texts.append(episode.text())
        else:
            self._states.append({name: values.tolist() for name, values in episode.scene().state.items()})

    @property
    def is_full(self) -> bool:
        """Whether the episode has become too large to be sent."""
        return self._indices >= _MOST_INDICES

    def _take_drawing(self, drawing: Drawing) -> None:
        if self._bounds is None:
            self._bounds, self._paper = drawing.bounds, drawing.paper
            size = max(drawing.bounds[2] - drawing.bounds[0], drawing.bounds[3] - drawing.bounds[1])
            # A ten-thousandth of the picture is less than a pixel.
            self._digits = max(0, 4 - math.floor(math.log10(size))) if size > 0 else 4
        frame = []
        for shape in drawing.shapes:
            key = self._encode(shape)
            frame.append(self._table.setdefault(key, len(self._table)))
        self._indices += len(frame)
        self._frames.append(frame)

    def _encode(self, shape: Shape) -> tuple[Any, ...]:
        match shape:
            case Line():
                return "line", self._points(shape.points), self._round(shape.width), shape.colour
            case Disc():
                return "disc", self._point(shape.centre), self._round(shape.radius), shape.colour
            case Polygon():
                return "polygon", self._points(shape.points), shape.colour
            case Label():
                return "label", self._point(shape.at), shape.text, self._round(shape.height), shape.colour

    def _round(self, value: float) -> float:
        return round(float(value), self._digits)

    def _point(self, point: tuple[float, float]) -> tuple[float, float]:
        return self._round(point[0]), self._round(point[1])

    def _points(self, points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
        return tuple(map(self._point, points))

    def result(
        self,
        *,
        title: str,
        source: Mapping[str, Any],
        checked: bool = False,
        insight: Insight | None = None,
        policies: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """The episode as JSON."""
        episode = self._episode
        rewards = np.array(episode.rewards, np.float64).reshape(-1, episode.seats)
        names = getattr(rendering.renderer(episode.env), "ACTIONS", ()) if is_native(episode.env) else ()
        known = insight is not None and len(insight.values) == episode.steps and episode.steps > 0
        return {
            "env": episode.env,
            "seats": episode.seats,
            "seed": str(episode.seed),
            "index": episode.index,
            "steps": episode.steps,
            "pace": rendering.pace(episode.env) if is_native(episode.env) else 10.0,
            "bounds": self._bounds,
            "paper": self._paper,
            "shapes": list(self._table),
            "frames": self._frames,
            "texts": self._texts or None,
            "state": self._states or None,
            "actions": [actions.tolist() for actions in episode.actions],
            "action_names": list(names),
            "action_texts": [[_action_text(episode.env, action) for action in actions] for actions in episode.actions],
            "rewards": rewards.tolist(),
            "returns": rewards.cumsum(axis=0).tolist(),
            "values": insight.values if known and insight is not None else None,
            "probabilities": insight.probabilities or None if known and insight is not None else None,
            "seat_at": self._seat_at or None,
            "seat_policies": None if policies is None else list(policies),
            "title": title,
            "checked": checked,
            "ended": episode.ended or "cut",
            "source": dict(source),
        }


def _action_text(env: str, action: NDArray[Any]) -> str:
    return rendering.action_text(env, action) if is_native(env) else str(action.tolist())


def play_frames(
    episode: Episode, choose: Chooser, *, longest: int, keep_going: Callable[[], bool] = lambda: True
) -> FrameRecorder:
    """Play an episode to its end, or as long as it may go on, and return its frames."""
    recorder = FrameRecorder(episode)
    recorder.take()
    while episode.ended is None and episode.steps < longest and not recorder.is_full and keep_going():
        episode.step(choose(episode.obs, episode.mask, episode.steps))
        recorder.take()
    return recorder


def replay_frames(replay: Replay, title: str) -> dict[str, Any]:
    """The frames of a replay that was checked to repeat as recorded."""
    replay.check()
    episode = replay.begin()
    try:
        recorder = FrameRecorder(episode)
        recorder.take()
        for actions in replay.actions:
            if recorder.is_full:
                break
            episode.step(actions)
            recorder.take()
        step = replay.about.get("steps")
        source = {
            "kind": "replay",
            "step": step if isinstance(step, int) else None,
            "checkpoint_step": step if isinstance(step, int) else None,
            "note": None,
        }
        policies = replay.about.get("policies")
        return recorder.result(title=title, source=source, checked=True, policies=policies)
    finally:
        episode.close()
