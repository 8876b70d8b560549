"""Frozen policies at some seats: each plays its own rows with a memory of its own, and only the learner trains."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop import _core
from hotloop.policies.protocol import ActRequest
from hotloop.ppo.collector import RunnerCollector
from hotloop.ppo.learners import Learner
from tests.ppo.reference import values_of
from tests.ppo.torch.learners import POLICY, pool_of, torch_learner
from tests.ppo.torch.test_parity import FULL

ENVS, HORIZON = 8, 10
OPTIONS = {"seats": 3, "max_steps": 7}
# The second seat is played by a policy with another memory, the third by one without.
TABLE = np.tile([0, 1, 2], (ENVS, 1))
MINE = {**POLICY, "hidden": [16], "memory": "lstm", "memory_size": 9, "memory_layers": 2}
FROZEN: list[dict[str, Any]] = [
    {**POLICY, "hidden": [8], "memory": "gru", "memory_size": 5, "memory_layers": 1},
    {**POLICY, "hidden": [12, 12], "activation": "relu"},
]


def native_learner() -> Learner:
    return _core.PpoLearner("tag", OPTIONS, MINE, rows=ENVS * 3, horizon=HORIZON, sequence_length=5, seed=3)


def other_learner() -> Learner:
    return torch_learner("tag", OPTIONS, MINE, ENVS, HORIZON, sequence_length=5, seed=3)


KINDS: list[Callable[[], Learner]] = [native_learner, other_learner]


def opponents() -> list[_core.PpoLearner]:
    made = [_core.PpoLearner("tag", OPTIONS, policy, rows=1, horizon=1, seed=70 + k) for k, policy in enumerate(FROZEN)]
    for k, learner in enumerate(made):
        draw = np.random.default_rng(k)
        learner.set_arrays(
            {n: a + draw.normal(0, 0.2, a.shape).astype(np.float32) for n, a in learner.arrays().items()}
        )
    return made


def set_opponents(learner: Learner) -> None:
    learner.set_opponents([(d, o.arrays(), {}) for d, o in zip(FROZEN, opponents(), strict=True)])


def must_play_its_own_rows(learner: Learner, before: dict[str, Any], atol: float) -> None:
    """Replay the rollout with each policy, from its earlier recurrent state."""
    rollout, state = learner.rollout(), learner.state()
    for index, player in enumerate([learner, *opponents()]):
        rows = slice(index, None, 3)
        name = f"memory.{index}" if index else "memory"
        numbers = np.ascontiguousarray(before.get(name, np.zeros((ENVS * 3, 0), np.float32))[rows])
        assert numbers.shape == (ENVS, player.memory_len)
        for slot in range(HORIZON):
            obs, mask = rollout["obs"][slot, rows], rollout["mask"][slot, rows].astype(np.int8)
            valid = rollout["valid"][slot, rows].copy()
            _, _, values = player.act(ActRequest(obs, mask, deterministic=True, state=numbers, valid=valid))
            np.testing.assert_allclose(values[valid], rollout["value"][slot, rows][valid], atol=atol)
            numbers[rollout["terminated"][slot, rows] | rollout["truncated"][slot, rows]] = 0.0
        if player.memory_len:
            np.testing.assert_allclose(numbers, state[name][rows], atol=atol)
            others = np.delete(state[name], np.arange(ENVS * 3)[rows], axis=0)
            assert (others == 0).all()
    assert (rollout["weight"].reshape(HORIZON, ENVS, 3)[..., 1:] == 0).all()
    assert (rollout["weight"] > 0).sum() == rollout["valid"][:-1, ::3].sum()


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_policies_play_their_seats_with_memories_of_their_own(kind: Callable[[], Learner]) -> None:
    learner = kind()
    set_opponents(learner)
    pool = pool_of("tag", OPTIONS, ENVS, seed=3, groups=2)
    pool.set_policies(TABLE.ravel().tolist())
    pool.reset()
    for iteration in range(2):
        before = learner.state()
        learner.collect(pool, {**FULL, "iteration": iteration})
        must_play_its_own_rows(learner, before, atol=1e-5)
    arrays = learner.arrays()
    learner.update(FULL)
    assert any((arrays[name] != array).any() for name, array in learner.arrays().items())


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_policies_play_their_seats_where_a_runner_is_served(kind: Callable[[], Learner]) -> None:
    served, native = kind(), kind()
    for learner in (served, native):
        set_opponents(learner)
    pool = pool_of("tag", OPTIONS, ENVS, seed=3)
    pool.set_policies(TABLE.ravel().tolist())
    pool.seed(3)
    pool.reset()
    with hotloop.make_vec(
        "tag", ENVS, num_threads=1, num_groups=4, options=OPTIONS, autoreset_mode="same_step"
    ) as runner:
        runner.set_policies(TABLE)
        server = RunnerCollector(served, runner, *runner.reset(seed=3))
        for iteration in range(2):
            before = served.state()
            server.collect({**FULL, "iteration": iteration})
            must_play_its_own_rows(served, before, atol=1e-5)
            native.collect(pool, {**FULL, "iteration": iteration})
            np.testing.assert_array_equal(native.rollout()["action"], served.rollout()["action"])


def test_both_learners_give_the_same_rollout_with_the_same_opponents() -> None:
    rollouts = []
    for kind in KINDS:
        learner = kind()
        set_opponents(learner)
        pool = pool_of("tag", OPTIONS, ENVS, seed=3)
        pool.set_policies(TABLE.ravel().tolist())
        pool.reset()
        learner.collect(pool, FULL)
        rollouts.append(learner.rollout())
    one, two = rollouts
    np.testing.assert_array_equal(one["action"], two["action"])
    for name in ("value", "log_prob", "advantage"):
        np.testing.assert_allclose(one[name], two[name], atol=1e-4, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_what_opponents_remember_goes_with_the_state(kind: Callable[[], Learner]) -> None:
    learner, other = kind(), kind()
    for each in (learner, other):
        set_opponents(each)
    pool = pool_of("tag", OPTIONS, ENVS, seed=3)
    pool.set_policies(TABLE.ravel().tolist())
    pool.reset()
    learner.collect(pool, FULL)
    other.set_state(learner.state())
    assert np.abs(learner.state()["memory.1"]).max() > 0
    np.testing.assert_array_equal(other.state()["memory.1"], learner.state()["memory.1"])


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_arrays_of_an_opponent_are_refused(kind: Callable[[], Learner]) -> None:
    other = opponents()[0]
    with pytest.raises(ValueError, match=r'"trunk.0.weight" has shape \[8, 15\]: expected \[12, 15\]|missing|shape'):
        kind().set_opponents([(FROZEN[1], other.arrays(), {})])


def test_a_cnn_plays_beside_a_dense_policy() -> None:
    options = {"seats": 2, "observation": "grid"}
    picture = {**POLICY, "hidden": [8], "encoder": "cnn", "convolutions": [[4, 3, 1]]}
    other = torch_learner("tag", options, picture, 1, 1, seed=9)
    learner = torch_learner("tag", options, {"hidden": [8]}, 4, 6)
    learner.set_opponents([(picture, other.arrays(), {})])
    pool = pool_of("tag", options, 4)
    pool.set_policies([0, 1] * 4)
    pool.reset()
    learner.collect(pool, FULL)
    rollout = learner.rollout()
    np.testing.assert_allclose(rollout["value"][2, 1::2], values_of(other, rollout["obs"][2, 1::2]), atol=1e-5)
