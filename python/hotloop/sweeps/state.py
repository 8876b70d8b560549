"""The whole state of a session in memory: weights or table, optimiser, envs, counters."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from hotloop.training.counters import Counters
from hotloop.training.session import Session
from hotloop.training.tabular_session import TabularSession

if TYPE_CHECKING:
    from hotloop.training.session_protocol import TrainingSession


def snapshot(session: TrainingSession) -> bytes:
    """Return the state of a session, for processes of this sweep."""
    session.gather()
    if isinstance(session, Session):
        arrays: Any = session.learner.arrays(), session.learner.state(), session.source.snapshot()
    else:
        assert isinstance(session, TabularSession)
        arrays = session.policy_bytes(), session.engine.snapshot()
    # Never read from a file: pickles of others would be code.
    return pickle.dumps((arrays, session.counters.to_json()))


def restore(session: TrainingSession, state: bytes, *, is_fork: bool) -> None:
    """Bring a session to a state; a fork's random streams start again from the session's own seed."""
    arrays, counters = pickle.loads(state)
    if isinstance(session, Session):
        weights, learner, envs = arrays
        session.learner.set_arrays(weights)
        session.learner.set_state(learner)
        session.source.restore(envs)
        if is_fork:
            session.source.seed(session.config.train.seed, 0)
    else:
        assert isinstance(session, TabularSession)
        from safetensors.numpy import load

        from hotloop.tabular.player import from_arrays

        table, engine = arrays
        session.engine.set_table(from_arrays(load(table), session.manifest("")["table"]))
        session.engine.restore(engine)
    session.counters = Counters.from_json(counters, session.config.train.until_episodes)
