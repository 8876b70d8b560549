"""Sizes that do not fit into memory are refused before anything is allocated, with the size and what to change."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotloop
from hotloop import _core
from hotloop.policies.protocol import ActRequest
from tests import core_calls

HUGE = 2**31
NEEDS = r"needs \d[\d.]* ([kMGTPE]?B|bytes) of memory, \d[\d.]* ([kMGTPE]?B|bytes) are available: use "
Call = Callable[[], Any]


def learner(**changes: Any) -> _core.PpoLearner:
    arguments = {"rows": 4, "horizon": 8, "seed": 0, "num_threads": 1} | changes
    return _core.PpoLearner("cartpole", None, arguments.pop("policy", {"hidden": [8]}), **arguments)


CALLS: dict[str, Call] = {
    "envs": lambda: hotloop.make_vec("cartpole", num_envs=HUGE),
    "envs of several agents": lambda: hotloop.make_vec("tag", num_envs=2**27),
    "rollout": lambda: core_calls.pool().rollout(HUGE),
    "longest rollout": lambda: core_calls.pool().rollout(2**32 - 1),
    "horizon": lambda: learner(horizon=2**40),
    "rows": lambda: learner(rows=2**40),
    "rows times horizon": lambda: learner(rows=2**33, horizon=2**33),
    "layer": lambda: learner(policy={"hidden": [2**40]}),
    "layers": lambda: learner(policy={"hidden": [2**20, 2**20]}),
    "recurrent state": lambda: learner(policy={"memory": "lstm", "memory_size": 2**20}),
    "external rollout": lambda: _core.ExternalRollout(core_calls.DESCRIPTION, rows=2**40, horizon=2**40, seed=0),
    "table": lambda: _core.TabularLearner("frozen-lake", None, core_calls.TABULAR, 2**40, 4),
    "external table": lambda: _core.ExternalTabularLearner(core_calls.TABULAR, 2**40, 4),
    "converted table": lambda: core_calls.make_table().converted(2**50, False),
    "weights": lambda: _core.orthogonal_weights(2**40, 2**40, gain=1.0, seed=0, attempt=0, index=0),
    "update": lambda: _core.update_speed(4, [8], 2, rows=2**50),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_does_not_fit_is_refused_with_its_size(name: str) -> None:
    with pytest.raises(MemoryError, match=NEEDS):
        CALLS[name]()


def test_opponents_that_do_not_fit_are_refused() -> None:
    small = learner()
    with pytest.raises(MemoryError, match=NEEDS):
        small.set_opponents([({"hidden": [2**40]}, {}, {})])


BROADCAST: dict[str, Call] = {
    "outputs of all rows": lambda: core_calls.external_rollout().step(core_calls.pool(), 0, broadcast(2**40, 2), 0),
    "outputs of some rows": lambda: core_calls.external_rollout().sample_rows(
        np.zeros(1, np.int64), np.zeros(1, np.int64), broadcast(2**40, 2), 0
    ),
    "outputs": lambda: core_calls.external_rollout().sample(
        broadcast(2**40, 2), ActRequest(np.zeros((1, 4)), deterministic=True)
    ),
}


def broadcast(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.broadcast_to(np.zeros(1, np.float32), shape)


@pytest.mark.parametrize("name", BROADCAST)
def test_views_that_are_larger_than_their_memory_are_refused(name: str) -> None:
    with pytest.raises(MemoryError, match=NEEDS):
        BROADCAST[name]()


def test_outputs_of_another_width_are_refused_before_they_are_copied() -> None:
    with pytest.raises(ValueError, match="the policy has 1099511627776 outputs per row: expected 2"):
        core_calls.external_rollout().step(core_calls.pool(), 0, broadcast(1, 2**40), 0)


SIZES = st.integers(0, 70).flatmap(lambda bits: st.sampled_from([2**bits, 2**bits - 1, 2**bits + 1]))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["envs", "rollout", "rows", "horizon", "hidden", "states", "words"]), SIZES)
def test_any_size_works_or_raises(what: str, size: int) -> None:
    """Between what surely fits and what surely does not, nothing is tried: it would only take time."""
    if 2**16 < size < 2**36:
        size = 2**36
    calls: dict[str, Call] = {
        "envs": lambda: _core.Pool("cartpole", size, num_threads=1),
        "rollout": lambda: core_calls.pool().rollout(size),
        "rows": lambda: learner(rows=size),
        "horizon": lambda: learner(horizon=size),
        "hidden": lambda: learner(policy={"hidden": [min(size, 256) if size <= 2**16 else size]}),
        "states": lambda: _core.ExternalTabularLearner(core_calls.TABULAR, size, 4),
        "words": lambda: _core.Signals(np.zeros(8, np.uint32), size, size),
    }
    # A layer beyond 64 bits is a TypeError that shows its value.
    with contextlib.suppress(MemoryError, ValueError, OverflowError, TypeError):
        calls[what]()
