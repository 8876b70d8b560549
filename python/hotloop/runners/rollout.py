"""Arrays for many steps of native envs, filled in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hotloop.runners.threads import ThreadRunner


class Final(NamedTuple):
    """The last observations of truncated rows, before their envs were reset in the same step, in time order."""

    time: NDArray[np.int64]
    row: NDArray[np.int64]
    obs: NDArray[Any]


class Rollout:
    """`horizon` steps of every row of a runner, time first.

    `obs`, `action_mask` (`None` where the env has no masks), `valid`, `policy` and the arrays of `infos` have
    `horizon + 1` slots: slot `t` is the input of a row's decision at time `t`. `reward`, `terminated`, `truncated` and
    `cut` have `horizon`: slot `t` is the outcome of that decision. Made by `ThreadRunner.rollout`.
    """

    def __init__(self, runner: ThreadRunner, horizon: int) -> None:
        self._runner = runner
        self._native = runner._pool.rollout(horizon)
        self.horizon = horizon
        arrays = self._native.arrays()
        packed = arrays.get("infos")
        self._set_arrays(arrays, {} if packed is None else runner._infos.split(packed))

    def _set_arrays(self, arrays: dict[str, NDArray[Any]], infos: dict[str, NDArray[np.float32]]) -> None:
        self.obs = arrays["obs"]
        self.reward: NDArray[np.float32] = arrays["reward"]
        self.terminated: NDArray[np.bool_] = arrays["terminated"]
        self.truncated: NDArray[np.bool_] = arrays["truncated"]
        self.cut: NDArray[np.bool_] = arrays["cut"]
        self.valid: NDArray[np.bool_] = arrays["valid"]
        self.policy: NDArray[np.int32] = arrays["policy"]
        self.action_mask: NDArray[np.int8] | None = arrays.get("action_mask")
        self.infos = infos
        self._arrays = arrays

    def begin(self) -> None:
        """Write the current observation of every row to slot 0."""
        self._runner._pool.observe_into(self._native, 0)

    def send(self, actions: ArrayLike, group: int, slot: int) -> None:
        """Start a step of a group with its actions at time `slot`; `ThreadRunner.recv` returns the result."""
        self._runner._pool.send(actions, group, self._native, slot)
        self._runner._buffers.set_target(group, (self, slot))

    @property
    def final(self) -> Final:
        """Final observations under `same_step`; read them before a group is sent elsewhere or the runner is stepped."""
        return Final(*self._runner._pool.rollout_finals(self._native))

    def slot(self, name: str, slot: int) -> NDArray[Any]:
        """Return an array after the step of that slot: the outcome, or the observation that follows."""
        outcome = name in ("reward", "terminated", "truncated", "cut")
        array: NDArray[Any] = self._arrays[name][slot if outcome else slot + 1]
        return array
