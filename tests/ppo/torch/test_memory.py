"""LSTM and GRU of the torch learner: against float64, beside the native learner, and across the ends of episodes."""

from typing import Any

import numpy as np
import pytest
import torch

from hotloop import _core
from hotloop.policies.protocol import ActRequest
from hotloop.ppo.torch.learner import TorchLearner
from tests.ppo.reference import SETTINGS, leaves, loss
from tests.ppo.test_gradients import TASKS, filled, largest_byte, sets_of
from tests.ppo.test_memory import TASK_NAMES
from tests.ppo.torch.learners import pool_of, torch_learner
from tests.ppo.torch.test_parity import FULL, both

CHANGED = {**SETTINGS, "value_clip": 0.2, "normalize_advantages": False, "entropy": 0.05}


def policy_of(memory: str, layers: int, shared: bool = True) -> dict[str, Any]:
    return {"hidden": [19], "memory": memory, "memory_size": 21, "memory_layers": layers, "shared": shared}


def off(found: dict[str, Any], exact: dict[str, torch.Tensor], name: str) -> float:
    """The largest error of an array's gradient, in parts of its largest entry."""
    error = float(np.abs(found[name] - exact[name].numpy()).max())
    # Where rows cancel out to next to nothing, what f32 leaves of sums of ordinary size is all there can be.
    return max(0.0, error - 1e-7) / float(exact[name].abs().max())


def compare_both(task: str, policy: dict[str, Any], envs: int, horizon: int, length: int | None, within: float) -> None:
    """Both learners on one rollout, with the same weights, against float64."""
    native, rollout = filled(TASKS[task], policy, envs=envs, horizon=horizon, seed=3, sequence_length=length)
    embedded = {**policy, "embedding": TASKS[task].embedding}
    other = torch_learner(TASKS[task].env, TASKS[task].options, embedded, envs, horizon, sequence_length=length)
    other.set_arrays(native.arrays())
    for name, array in rollout.items():
        other.rollout()[name][...] = array
    shapes = {"high": largest_byte(TASKS[task]), "sets": sets_of(TASKS[task])}
    for settings in (SETTINGS, CHANGED):
        weights = leaves(native)
        total, parts = loss(weights, rollout, "tanh", {**settings, **shapes})
        total.backward()
        exact = {n: torch.zeros_like(w) if w.grad is None else w.grad for n, w in weights.items()}
        for learner in (native, other):
            gradients, result = learner.gradient(settings)
            for name in ("policy_loss", "value_loss", "entropy", "kl"):
                assert result[name] == pytest.approx(parts[name], rel=1e-5, abs=1e-5), (learner, name)
            worst = max(exact, key=lambda name: off(gradients, exact, name))
            assert off(gradients, exact, worst) <= within, (learner, worst, off(gradients, exact, worst))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("memory", ["lstm", "gru"])
@pytest.mark.parametrize("task", TASK_NAMES)
def test_loss_and_gradients_of_both_learners_are_those_of_float64(task: str, memory: str, layers: int) -> None:
    compare_both(task, policy_of(memory, layers, shared=layers == 1), 11, 12, 6, within=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_gradients_of_both_learners_hold_through_64_steps(memory: str, layers: int) -> None:
    compare_both("real, continuous", policy_of(memory, layers), 24, 64, None, within=1e-4)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_first_weights_are_the_native_ones_bit_for_bit(memory: str, shared: bool) -> None:
    native, other = both(TASKS["real, choices"], policy_of(memory, 2, shared), 2, 3)
    assert native.arrays().keys() == other.arrays().keys()
    assert native.memory_len == other.memory_len
    for name, array in native.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name], err_msg=name)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("memory", ["lstm", "gru"])
@pytest.mark.parametrize("task", ["real, choices", "real, continuous", "states, masks"])
def test_an_update_moves_as_the_native_one(task: str, memory: str, layers: int) -> None:
    """From the same rollouts: sequences come in the same order, and begin with the same memory."""
    native, other = both(TASKS[task], policy_of(memory, layers), 24, 12, sequence_length=6)
    settings = {**FULL, "epochs": 2, "minibatch_size": 60, "max_gradient_norm": 0.3}
    pool = pool_of(TASKS[task].env, {**TASKS[task].options, "max_steps": 9}, 24)
    for iteration in range(2):
        settings = {**settings, "iteration": iteration}
        native.collect(pool, settings)
        for name, array in native.rollout().items():
            other.rollout()[name][...] = array
        one, two = native.update(settings), other.update(settings)
        assert one["gradient_steps"] == two["gradient_steps"]
        for name in ("policy_loss", "value_loss", "entropy", "kl", "gradient_norm"):
            assert two[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5), name
    for name, array in native.arrays().items():
        np.testing.assert_allclose(array, other.arrays()[name], atol=2e-5, rtol=1e-4, err_msg=name)


def collected(env: str, options: dict[str, Any], policy: dict[str, Any], length: int) -> TorchLearner:
    """A learner whose second rollout is there, so that sequences begin in the middle of episodes."""
    learner = torch_learner(env, options, policy, 21, 12, sequence_length=length, seed=5)
    pool = pool_of(env, options, 21, seed=5, groups=2)
    for iteration in range(2):
        learner.collect(pool, {**FULL, "iteration": iteration})
    return learner


ENDING = [("cartpole", {"max_steps": 9}), ("pendulum", {}), ("taxi", {"max_steps": 7}), ("tag", {"seats": 3})]


@pytest.mark.parametrize("length", [12, 4, 1])
@pytest.mark.parametrize("memory", ["lstm", "gru"])
@pytest.mark.parametrize(("env", "options"), ENDING)
def test_the_first_ratio_is_one(env: str, options: dict[str, Any], memory: str, length: int) -> None:
    learner = collected(env, options, policy_of(memory, 2), length)
    batch, memories = learner._data(SETTINGS).whole()
    with torch.no_grad():
        now = learner._evaluated(batch, memories)
    ratio = (now.log_prob - batch.log_prob).exp()[batch.weight > 0]
    assert float((ratio - 1).abs().max()) <= 1e-5


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_the_end_of_an_episode_within_a_sequence_is_as_good_as_two_sequences(memory: str) -> None:
    """Rows that all end at step 5: one sequence of 12 with the memory emptied is 6 and 6 that begin with none."""
    whole, halves = (collected("cartpole", {}, policy_of(memory, 2), length) for length in (12, 6))
    rollout = whole.rollout()
    rollout["terminated"][5] = True
    rollout["memory"][:] = 0.0
    for name, array in halves.rollout().items():
        array[...] = 0.0 if name == "memory" else rollout[name]
    one, two = whole.gradient(SETTINGS), halves.gradient(SETTINGS)
    assert one[1] == pytest.approx(two[1], rel=1e-5, abs=1e-6)
    for name, array in one[0].items():
        np.testing.assert_allclose(array, two[0][name], rtol=1e-4, atol=1e-6, err_msg=name)
    rollout["terminated"][5] = False
    other = whole.gradient(SETTINGS)[0]["memory.0.hidden.weight"]
    assert np.abs(other - one[0]["memory.0.hidden.weight"]).max() > 1e-4


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_rollouts_remember_within_episodes_and_nothing_beyond_them(memory: str) -> None:
    """Going through the rollout with the native `act`, forgetting at ends, gives its values."""
    options, policy = {"max_steps": 7}, policy_of(memory, 2)
    learner = collected("cartpole", options, policy, 4)
    native = _core.PpoLearner("cartpole", options, policy, rows=1, horizon=1, seed=0)
    native.set_arrays(learner.arrays())
    rollout = learner.rollout()
    numbers = rollout["memory"][0].copy()
    for slot in range(12):
        if slot % 4 == 0:
            np.testing.assert_allclose(numbers, rollout["memory"][slot // 4], atol=1e-5)
        _, _, values = native.act(ActRequest(rollout["obs"][slot], deterministic=True, state=numbers))
        np.testing.assert_allclose(values, rollout["value"][slot], atol=1e-5)
        numbers[rollout["terminated"][slot] | rollout["truncated"][slot]] = 0.0
    assert rollout["truncated"].sum() > 10
    np.testing.assert_allclose(numbers, learner.state()["memory"], atol=1e-5)


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_a_checkpoint_goes_both_ways_with_what_rows_remember(memory: str) -> None:
    native, other = both(TASKS["real, continuous"], policy_of(memory, 2), 8, 8)
    pool = pool_of("pendulum", {}, 8)
    other.iterate(pool, FULL, 2, 1e9)
    native.set_arrays(other.arrays())
    native.set_state(other.state())
    assert native.state().keys() == other.state().keys()
    assert np.abs(native.state()["memory"]).max() > 0.01
    for name, array in native.state().items():
        np.testing.assert_array_equal(array, other.state()[name], err_msg=name)
    native.iterate(pool, {**FULL, "iteration": 2}, 1, 1e9)
    other.set_state(native.state())
    np.testing.assert_array_equal(native.state()["memory"], other.state()["memory"])
