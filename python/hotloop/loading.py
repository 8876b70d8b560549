"""Loading of trained policies from runs and checkpoints."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.envs.spec import EnvSpec
from hotloop.errors import CheckpointError, ConfigError
from hotloop.policies.policy import Policy

if TYPE_CHECKING:
    from hotloop import _core
    from hotloop.policies.protocol import BatchPolicy
    from hotloop.training.checkpoint import Checkpoint


def load(run: str | Path, *, trust: bool = False, home: str | Path | None = None) -> Policy:
    """Return the policy of a run (of its best checkpoint, the last one if none was evaluated) or of a checkpoint.

    Loading reads arrays and JSON. A run from elsewhere that names code is refused without `trust`. If the best
    checkpoint is damaged, another one is used, with a warning.

    Args:
        run: Path of a run or checkpoint, a run's name or the beginning of it, or `last`.
        trust: Whether to execute code that a run from elsewhere names.
        home: Where runs are kept; `HOTLOOP_HOME` or `~/.hotloop` by default.

    >>> from hotloop import train
    >>> run = train("cartpole", steps=2048, home=getfixture("tmp_path"))
    >>> load(run.path).act([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    True
    """
    from hotloop.training.checkpoint import open_policy
    from hotloop.training.lookup import find_run

    path = Path(run)
    if not path.is_dir():
        path = find_run(run, home)
    return checkpoint_policy(open_policy(path, trust=trust, warn=_warn))


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def checkpoint_policy(checkpoint: Checkpoint) -> Policy:
    """Return the policy of an open checkpoint."""
    try:
        spec = EnvSpec.from_json(checkpoint.manifest)
        learner = batch_policy(checkpoint, spec)
    except (KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        if isinstance(error, CheckpointError | ConfigError):
            raise
        raise CheckpointError(f"the checkpoint {checkpoint.path} is damaged: {error}") from None
    return Policy(learner, spec, checkpoint.path, checkpoint.manifest)


def load_table(checkpoint: Checkpoint) -> _core.QTable:
    """Return the Q-table of a checkpoint."""
    from hotloop.tabular.player import from_arrays

    table = checkpoint.manifest.get("table")
    if table is None:
        raise CheckpointError(f"{checkpoint.path} holds a network for {checkpoint.manifest['env']!r}, not a table")
    weights, _ = checkpoint.policy()
    return from_arrays(weights, table)


def batch_policy(checkpoint: Checkpoint, spec: EnvSpec) -> BatchPolicy:
    """Return the network or table of a checkpoint, for batches of an env with this spec."""
    manifest = checkpoint.manifest
    if "table" in manifest:
        from hotloop.tabular.player import TablePlayer

        return TablePlayer(load_table(checkpoint))
    from hotloop.policies.spec import policy_spec_from_json
    from hotloop.ppo.learners import build_actor

    learner = build_actor(spec, policy_spec_from_json(manifest["policy"]), manifest["normalize_observations"])
    weights, statistics = checkpoint.policy()
    learner.set_arrays(weights)
    learner.set_state(statistics)
    return learner
