"""The modelled cost of training: the same number on every machine, unlike seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hotloop.envs.registry import is_native
from hotloop.training.session import Session

if TYPE_CHECKING:
    from hotloop.training.session_protocol import TrainingSession

# Seconds of one core per floating-point operation, per step of an env and per update of a table: round numbers of
# ordinary machines. Only their ratios decide.
_PER_OPERATION: Final = 1e-10
_PER_NATIVE_STEP: Final = 1e-7
_PER_PYTHON_STEP: Final = 1e-5
_PER_TABLE_UPDATE: Final = 1e-7


def modelled_cost(session: TrainingSession, steps: int) -> float:
    """Return the cost of some steps of a session in seconds of a nominal core.

    A weight costs a multiply-add forward, and three in each epoch.
    """
    env = _PER_NATIVE_STEP if is_native(session.config.env.name) else _PER_PYTHON_STEP
    if not isinstance(session, Session):
        return steps * (env + _PER_TABLE_UPDATE * session.config.tabular.replay_updates)
    operations = 2.0 * session.learner.parameters * (1 + 3 * session.config.ppo.epochs)
    return steps * (env + operations * _PER_OPERATION)
