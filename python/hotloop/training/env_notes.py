"""Notices about a run's envs: how observations and actions reach the policy, and where the env's code is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.envs.spec import Action, EnvSpec

# Largest bounds of actions that a policy with a standard deviation of 1 explores well, and the smallest.
_WIDE: Final = 10.0
_NARROW: Final = 0.1


def env_notes(name: str, spec: EnvSpec) -> Iterator[str]:
    """Yield the notices about a Python env."""
    from hotloop.envs import object_envs

    if object_envs.is_local(name):
        yield (
            f"{name} is defined in this program, not in a module: the run can be resumed and evaluated only by a "
            "program that passes the same env again, as in hotloop.train(ENV, resume=RUN)"
        )
    if spec.padded:
        yield (
            "agents have different spaces: observations are padded with zeros and end with the agent's role, choices "
            "that an agent does not have are masked, and real numbers ignored, so that one policy plays all of them"
        )
    if spec.own_observation is not None:
        yield from _observation_notes(json.loads(spec.own_observation))
    if spec.action.low and spec.own_action is not None:
        from hotloop.envs.flatten import FlatAction
        from hotloop.envs.space_json import space_from_json

        own = FlatAction(space_from_json(json.loads(spec.own_action))).spec
        if own != spec.action:
            yield f"actions are scaled from [-1, 1] to {_range(own)} (wrap.scale_actions)"


def _observation_notes(space: dict[str, Any]) -> Iterator[str]:
    from hotloop.envs.flatten import FlatObservation
    from hotloop.envs.space_json import space_from_json

    flat = FlatObservation(space_from_json(space))
    texts = [key for key, part in space.get("parts", ()) if part["kind"] == "text"] if space["kind"] == "dict" else []
    if texts:
        yield f"the policy does not see the texts in the observation: {', '.join(texts)}"
    if images := flat.images():
        yield (
            f"images inside the observation are flattened ({'; '.join(images)}), and a policy without convolutions "
            "learns little from them: return the image alone, or use a module of your own (policy.module)"
        )


def unscaled_actions(name: str, spec: EnvSpec) -> Iterator[str]:
    """Yield a notice if an env with native code has bounds of actions that a policy would hardly explore."""
    if ":" not in name or not spec.action.low:
        return
    reach = max(map(abs, (*spec.action.low, *spec.action.high)))
    if not _NARROW < reach < _WIDE:
        yield (
            f"actions reach {_range(spec.action)}, and are not scaled: a policy begins with a standard deviation of 1. "
            "Take actions in [-1, 1] and scale them in the env's step, or set policy.log_std"
        )


def _range(action: Action) -> str:
    pairs = dict.fromkeys(zip(action.low, action.high, strict=True))
    return ", ".join(f"[{low:g}, {high:g}]" for low, high in pairs)
