"""Replay of recordings of the real simulator with its random choices injected, to find differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.envs.cage2.network import BITS, FULL_ACTIONS, RED_AGENTS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_NEEDED: Final = (
    "act",
    "obs",
    "obs_cw2",
    "rew",
    "red_type",
    "red_tgt",
    "red_succ",
    "red_expl",
    "red_det",
    "access",
    "ot_up",
)


@dataclass(frozen=True)
class Difference:
    """A value that differs from the recording."""

    what: str
    episode: int
    step: int
    recorded: Any
    played: Any

    def __str__(self) -> str:
        return (
            f"{self.what} differs in episode {self.episode} at step {self.step}: recorded {self.recorded}, "
            f"played {self.played}"
        )


def replay(trace: Mapping[str, ArrayLike], red: str, *, variant: str = "official") -> list[Difference]:
    """Return the differences between a recording and the same episodes in the native env; none if the env is exact.

    Args:
        trace: Arrays of [episode, step]: `act` (the 145 actions of the challenge), `obs` and `obs_cw2` (with the reset
            in front), `rew`, `red_type`, `red_tgt`, `red_succ`, `red_expl`, `red_det`, `access` and `ot_up`.
        red: The red agent that was recorded.
        variant: Which of the two recorded observations to compare: `official` or `challenge2`.
    """
    recorded = _checked(trace)
    if red not in RED_AGENTS:
        raise ValueError(f"red is {red!r}: a recording has one of {', '.join(RED_AGENTS)}")
    from hotloop.make import make_vec

    episodes, steps = recorded["act"].shape
    envs = make_vec(
        "cage2",
        num_envs=episodes,
        options={"red": red, "variant": variant, "lengths": [0]},
        infos=["access", "red_action", "ot"],
    )
    shown = recorded["obs" if variant == "official" else "obs_cw2"]
    differences: list[Difference] = []
    with envs:
        obs, _ = envs.reset(seed=0)
        _compare(differences, "observation", -1, shown[:, 0], obs)
        choices = np.full((episodes, 4), -1, np.int32)
        for step in range(steps):
            for column, name in enumerate(("red_tgt", "red_expl", "red_det")):
                choices[:, column] = recorded[name][:, step]
            envs.set_state({"choices": choices})
            obs, reward, _, _, info = envs.step(recorded["act"][:, step].astype(np.int64))
            red_action = info["red_action"]
            _compare(differences, "observation", step, shown[:, step + 1], obs)
            _compare(differences, "reward", step, recorded["rew"][:, step], reward)
            for column, name in enumerate(("red_type", "red_tgt", "red_succ", "red_expl", "red_det")):
                _compare(differences, name, step, recorded[name][:, step], red_action[:, column])
            _compare(differences, "access", step, recorded["access"][:, step], info["access"])
            _compare(differences, "ot_up", step, recorded["ot_up"][:, step], info["ot"][:, 0])
    return differences


def _checked(trace: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    missing = [name for name in _NEEDED if name not in trace]
    if missing:
        raise ValueError(f"the trace has no {', '.join(missing)}: it needs {', '.join(_NEEDED)}")
    recorded = {name: np.asarray(trace[name]) for name in _NEEDED}
    shape = recorded["act"].shape
    if len(shape) != 2:
        raise ValueError(f"act has shape {shape}: expected episodes by steps")
    for name, array in recorded.items():
        expected = (shape[0], shape[1] + 1, BITS) if name.startswith("obs") else shape
        if array.shape[: len(expected)] != expected:
            raise ValueError(f"{name} has shape {array.shape}: expected {expected} for act of shape {shape}")
    highest = recorded["act"].max(initial=0)
    if highest >= FULL_ACTIONS or recorded["act"].min(initial=0) < 0:
        raise ValueError(
            f"act holds {highest}: the trace is of another action space; expected the challenge's, "
            f"0 to {FULL_ACTIONS - 1}"
        )
    return recorded


def _compare(differences: list[Difference], what: str, step: int, recorded: NDArray[Any], played: NDArray[Any]) -> None:
    same = recorded.astype(np.float32) == played
    differences += (
        Difference(what, int(episode), step, recorded[episode].tolist(), played[episode].tolist())
        for episode in np.flatnonzero(~same.reshape(len(same), -1).all(axis=1))
    )
