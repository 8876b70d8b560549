"""Memory for many steps of Python envs: the arrays of a native rollout, filled as groups come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.runners.rollout import Final, Rollout
from hotloop.runners.worker import ENDED

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hotloop.runners.processes import ProcessRunner

_OUTCOMES = ("reward", "terminated", "truncated", "cut")
_SEEN = {"obs": "obs", "valid": "valid", "policy": "policy", "action_mask": "mask", "infos": "infos"}


def _room(slots: int, like: NDArray[Any]) -> NDArray[Any]:
    return np.zeros((slots, *like.shape), like.dtype)


class ProcessRollout(Rollout):
    """`horizon` steps of every row, time first; see `Rollout`."""

    def __init__(self, runner: ProcessRunner, horizon: int) -> None:
        self._owner = runner
        self.horizon = horizon
        views = runner._views
        seen = {ours: theirs for ours, theirs in _SEEN.items() if theirs in views}
        arrays = {ours: _room(horizon + 1, views[theirs]) for ours, theirs in seen.items()}
        arrays |= {name: _room(horizon, views[name]) for name in _OUTCOMES}
        self._show(arrays, runner._infos.split(arrays["infos"]))
        self._seen = seen
        self._finals: dict[tuple[int, int], NDArray[Any]] = {}

    def begin(self) -> None:
        """Writes what every row sees now to slot 0."""
        for name, shared in self._seen.items():
            self._arrays[name][0] = self._owner._views[shared]

    def send(self, actions: ArrayLike, group: int, slot: int) -> None:
        """Sends a group on its way with what it decided at time `slot`; `recv` hands it back."""
        self._owner._send(actions, group)
        self._owner._targets[group] = (self, slot)

    def keep(self, group: int, slot: int) -> None:
        """Takes over what a group's step brought."""
        runner, rows = self._owner, self._owner._rows[group]
        for name in _OUTCOMES:
            self._arrays[name][slot, rows] = runner._views[name][rows]
        for name, shared in self._seen.items():
            self._arrays[name][slot + 1, rows] = runner._views[shared][rows]
        if runner._same_step and runner._views["brought"][group] & ENDED:
            for row in np.flatnonzero(runner._views["truncated"][rows]) + rows.start:
                self._finals[slot, int(row)] = runner._views["final_obs"][row].copy()

    @property
    def final(self) -> Final:
        """Final observations of truncated rows under `same_step`."""
        places = sorted(self._finals)
        obs = [self._finals[place] for place in places]
        shape = self.obs.shape[2:]
        return Final(
            np.array([time for time, _ in places], np.int64),
            np.array([row for _, row in places], np.int64),
            np.array(obs, self.obs.dtype).reshape(-1, *shape),
        )
