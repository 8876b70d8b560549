"""A trained policy with the conveniences of acting: single observations, masks, recurrent state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotloop.policies.own_spaces import OwnSpaces
from hotloop.policies.protocol import ActRequest

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.envs.spec import EnvSpec
    from hotloop.policies.protocol import BatchPolicy

# PettingZoo's board games put the mask beside the observation.
_WITH_MASK: Final = {"observation", "action_mask"}
_NOT_FINITE: Final = "obs holds a number that is not finite: expected finite numbers"


class Policy:
    """The policy of a checkpoint; `hotloop.load` returns one.

    Args:
        learner: The network or table that acts on batches.
        spec: The env's spec. It comes from the checkpoint, so that acting needs neither the env nor its packages.
        path: The checkpoint's directory.
        manifest: The checkpoint's manifest.
        seed: The seed of sampled actions.
    """

    def __init__(
        self, learner: BatchPolicy, spec: EnvSpec, path: Path, manifest: Mapping[str, Any], *, seed: int = 0
    ) -> None:
        self.path = path
        self.env: str = manifest["env"]
        self.options: dict[str, Any] = manifest["options"]
        self.action_repeat: int = manifest["action_repeat"]
        self.wrap: dict[str, Any] = manifest.get("wrap", {})
        self.steps: int = manifest["steps"]
        self.gamma: float | None = manifest.get("gamma")
        self.spec = spec
        self._learner = learner
        self._own = OwnSpaces(spec)
        self._seed = seed
        self._samples = 0
        self._memory: NDArray[np.float32] | None = None

    @property
    def learner(self) -> BatchPolicy:
        """The network or table itself, for batches."""
        return self._learner

    def act(self, obs: Any, *, deterministic: bool = True, mask: ArrayLike | None = None) -> Any:
        """Return the action for one observation, or the actions for a batch.

        One observation is what the env itself gives (a dict for a Dict space, and so on), and the action is one that
        its `step` takes. A batch is what a vector env gives; the actions are those that its `step` takes.
        A recurrent policy keeps the state of each row from call to call; call `reset` where episodes begin.

        Args:
            obs: One observation, several along the first axis, or for Dict and Tuple spaces a list of them.
            deterministic: Whether to take the most probable action; otherwise actions are sampled.
            mask: Which choices are allowed, in the batch shape of `obs`.
        """
        if isinstance(obs, Mapping) and set(obs) == _WITH_MASK and not self._own.is_dict_with(_WITH_MASK):
            mask = obs["action_mask"] if mask is None else mask
            obs = obs["observation"]
        batch, single = self._batch(obs)
        allowed = self._mask(mask, len(batch))
        request = ActRequest(
            batch,
            allowed,
            deterministic=deterministic,
            seed=self._seed,
            step=self._samples,
            state=self._state(len(batch)),
        )
        actions, _, _ = self._learner.act(request)
        self._samples += not deterministic
        return self._own.action(actions[0]) if single else self._own.actions(actions)

    def reset(self, rows: ArrayLike | None = None) -> None:
        """Clear the recurrent state of all rows, or of those that a mask or indices select.

        Call it where episodes begin; it has no effect on policies without memory.
        """
        if rows is None:
            self._memory = None
        elif self._memory is not None:
            self._memory[np.asarray(rows)] = 0.0

    def _state(self, rows: int) -> NDArray[np.float32]:
        if self._memory is None or (self._learner.memory_len == 0 and len(self._memory) != rows):
            self._memory = np.zeros((rows, self._learner.memory_len), np.float32)
        if len(self._memory) != rows:
            raise ValueError(
                f"obs has {rows} rows, but this policy keeps the recurrent state of {len(self._memory)}: "
                "call reset() before acting in other episodes"
            )
        return self._memory

    def _batch(self, obs: Any) -> tuple[NDArray[Any], bool]:
        try:
            found = self._own.flatten(obs)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            reason = f"there is no {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"obs does not fit the observation space of {self.env}: {reason}") from None
        if found is None:
            return self._plain_batch(obs)
        if not np.isfinite(found[0]).all():
            raise ValueError(_NOT_FINITE)
        return found

    def _plain_batch(self, obs: ArrayLike) -> tuple[NDArray[Any], bool]:
        observation = self.spec.observation
        shape, states = observation.shape, observation.states
        given = np.asarray(obs)
        if states and given.dtype.kind not in "iu":
            raise TypeError(f"obs has dtype {given.dtype}: the observations of {self.env} are whole numbers")
        array = np.asarray(given, observation.dtype, order="C")
        single = array.shape == shape
        if not single and array.shape[1:] != shape:
            raise ValueError(f"obs has shape {array.shape}: expected {shape}, or a batch of that")
        batch = array.reshape(-1, *shape)
        if states and batch.size and not 0 <= batch.min() <= batch.max() < states:
            raise ValueError(f"obs holds {batch.min()} to {batch.max()}: expected 0 to {states - 1}")
        if batch.dtype == np.float32 and not np.isfinite(batch).all():
            raise ValueError(_NOT_FINITE)
        return batch, single

    def _mask(self, mask: ArrayLike | None, rows: int) -> NDArray[np.int8] | None:
        if mask is None:
            return None
        choices = sum(self.spec.action.choices)
        if not choices:
            raise ValueError(f"mask was given, but the actions of {self.env} are continuous")
        array = np.asarray(mask)
        if array.size != rows * choices:
            raise ValueError(f"mask has shape {array.shape}: expected {choices} entries for each of {rows} rows")
        return np.ascontiguousarray(array.reshape(rows, choices).astype(np.bool_), np.int8)

    def __repr__(self) -> str:
        return f"Policy({self.env!r}, steps={self.steps})"
