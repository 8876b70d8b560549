"""A policy that was learned, ready to act."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotloop.envs.spec import EnvSpec
from hotloop.errors import CheckpointError, ConfigError
from hotloop.ppo.learners import build_player

if TYPE_CHECKING:
    from hotloop.policies.protocol import BatchPolicy
    from hotloop.training.checkpoint import Checkpoint


def load(path: str | Path, *, trust: bool = False) -> Policy:
    """The policy of a run (its best checkpoint, the last if none was evaluated), or of one checkpoint.

    Loading reads arrays and JSON. A run from elsewhere that names code is refused without `trust`. If the best
    checkpoint is damaged, another one is taken, with a warning.

    >>> from hotloop import train
    >>> run = train("cartpole", steps=2048, home=getfixture("tmp_path"))
    >>> load(run.path).act([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    True
    """
    from hotloop.training.checkpoint import open_policy

    return Policy(open_policy(Path(path), trust=trust, warn=_warn))


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def _player(checkpoint: Checkpoint, spec: EnvSpec) -> BatchPolicy:
    """What acts: a table, or a native policy with its weights."""
    manifest = checkpoint.manifest
    if "table" in manifest:
        from hotloop.tabular.player import TablePlayer, load_table

        return TablePlayer(load_table(checkpoint))
    learner = build_player(spec, manifest["policy"], manifest["normalize_observations"])
    weights, statistics = checkpoint.policy()
    learner.set_arrays(weights)
    learner.set_state(statistics)
    return learner


class Policy:
    """BatchPolicy as a checkpoint's policy does."""

    def __init__(self, checkpoint: Checkpoint, *, seed: int = 0) -> None:
        manifest = checkpoint.manifest
        self.path = checkpoint.path
        self.env: str = manifest["env"]
        self.options: dict[str, Any] = manifest["options"]
        self.action_repeat: int = manifest["action_repeat"]
        self.steps: int = manifest["steps"]
        self.gamma: float | None = manifest.get("gamma")
        # The spaces are kept with the policy, so that acting needs neither the env nor what the env needs.
        try:
            self.spec = EnvSpec.from_json(manifest)
            self._learner = _player(checkpoint, self.spec)
        except (KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
            if isinstance(error, CheckpointError | ConfigError):
                raise
            raise CheckpointError(f"the checkpoint {checkpoint.path} is damaged: {error}") from None
        self._seed = seed
        self._drawn = 0
        self._memory: NDArray[np.float32] | None = None

    @property
    def learner(self) -> BatchPolicy:
        """The native policy or table, for batches without conveniences."""
        return self._learner

    def act(self, obs: ArrayLike, *, deterministic: bool = True, mask: ArrayLike | None = None) -> Any:
        """What the policy does, given one observation or a batch of them.

        A policy with memory remembers each row of the batch from call to call; `reset` tells it that episodes begin.

        Args:
            obs: One observation, or several along the first axis.
            deterministic: Whether to take the most probable action; otherwise actions are drawn.
            mask: Which choices are allowed, in the shape of `obs`'s batch.
        """
        seen, single = self._batch(obs)
        allowed = self._mask(mask, len(seen))
        actions, _, _ = self._learner.act(
            seen,
            allowed,
            deterministic=deterministic,
            seed=self._seed,
            step=self._drawn,
            memory=self._remembered(len(seen)),
        )
        self._drawn += not deterministic
        if not single:
            return actions
        action = actions[0]
        return int(action) if action.ndim == 0 else action

    def reset(self, rows: ArrayLike | None = None) -> None:
        """Forgets what was remembered: of all rows, or of those that a mask or indices name.

        To be called where episodes begin; for a policy without memory it does nothing.
        """
        if rows is None:
            self._memory = None
        elif self._memory is not None:
            self._memory[np.asarray(rows)] = 0.0

    def _remembered(self, rows: int) -> NDArray[np.float32]:
        if self._memory is None or (self._learner.memory_len == 0 and len(self._memory) != rows):
            self._memory = np.zeros((rows, self._learner.memory_len), np.float32)
        if len(self._memory) != rows:
            raise ValueError(
                f"obs has {rows} rows, but this policy remembers {len(self._memory)}: "
                "call reset() where other episodes begin"
            )
        return self._memory

    def _batch(self, obs: ArrayLike) -> tuple[NDArray[Any], bool]:
        observation = self.spec.observation
        shape, states = observation.shape, observation.states
        given = np.asarray(obs)
        if states and given.dtype.kind not in "iu":
            raise TypeError(f"obs has dtype {given.dtype}: {self.env} shows whole numbers")
        array = np.asarray(given, observation.dtype, order="C")
        single = array.shape == shape
        if not single and array.shape[1:] != shape:
            raise ValueError(f"obs has shape {array.shape}: expected {shape}, or a batch of that")
        batch = array.reshape(-1, *shape)
        if states and batch.size and not 0 <= batch.min() <= batch.max() < states:
            raise ValueError(f"obs holds {batch.min()} to {batch.max()}: expected 0 to {states - 1}")
        if batch.dtype == np.float32 and not np.isfinite(batch).all():
            raise ValueError("obs holds a number that is not finite: the policy has never seen one")
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
