"""The torch learner beside the native one: first weights, collected rollouts, loss and gradients, one update."""

from typing import Any

import numpy as np
import pytest
import torch

from hotloop import _core
from tests.ppo.reference import SETTINGS, leaves, loss, values_of
from tests.ppo.test_gradients import TASKS, Task, filled, largest_byte, sets_of
from tests.ppo.torch.learners import pool_of, torch_learner

FULL = {**SETTINGS, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-5}


def both(task: Task, policy: dict[str, Any], envs: int, horizon: int, **keywords: Any) -> tuple[_core.PpoLearner, Any]:
    """A native and a torch learner of the same description."""
    description = {"activation": "tanh", "shared": True, "log_std": 0.0, **policy, "embedding": task.embedding}
    rows = envs * _core.describe(task.env, task.options)["seats"]
    native = _core.PpoLearner(
        task.env, task.options, description, rows=rows, horizon=horizon, seed=3, num_threads=1, **keywords
    )
    return native, torch_learner(task.env, task.options, description, envs, horizon, seed=3, **keywords)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_first_weights_are_the_native_ones_bit_for_bit(task: str, shared: bool) -> None:
    native, other = both(TASKS[task], {"hidden": [37, 21], "shared": shared, "log_std": -0.4}, 2, 3)
    assert native.arrays().keys() == other.arrays().keys()
    assert native.parameters == other.parameters
    for name, array in native.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name], err_msg=name)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_loss_and_gradients_are_those_of_float64(task: str, shared: bool) -> None:
    policy = {"hidden": [37, 21], "activation": "tanh", "shared": shared, "log_std": -0.4}
    native, rollout = filled(TASKS[task], policy, envs=13, horizon=7, seed=3)
    other = torch_learner(
        TASKS[task].env, TASKS[task].options, {**policy, "embedding": TASKS[task].embedding}, 13, 7, seed=3
    )
    other.set_arrays(native.arrays())
    for name, array in rollout.items():
        other.rollout()[name][...] = array
    for settings in (SETTINGS, {**SETTINGS, "value_clip": 0.2, "normalize_advantages": False, "entropy": 0.05}):
        gradients, result = other.gradient(settings)
        weights = leaves(native)
        shapes = {"high": largest_byte(TASKS[task]), "sets": sets_of(TASKS[task])}
        total, parts = loss(weights, rollout, "tanh", {**settings, **shapes})
        total.backward()
        for name, part in parts.items():
            if name != "clip_fraction":
                assert result[name] == pytest.approx(part, rel=1e-5, abs=1e-5), name
        for name, leaf in weights.items():
            expected = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            error = np.abs(gradients[name] - expected.numpy()).max()
            assert error <= 1e-5 * float(expected.abs().max()) + 1e-7, (name, error, float(expected.abs().max()))


@pytest.mark.parametrize("task", TASKS)
def test_rollouts_are_the_native_ones(task: str) -> None:
    """The same noise and nearly the same preferences: the same actions, but where rounding decides between two."""
    native, other = both(TASKS[task], {"hidden": [16]}, 24, 13, normalize_rewards=True)
    pools = [pool_of(TASKS[task].env, {**TASKS[task].options, "max_steps": 9}, 24, groups=3) for _ in range(2)]
    native.collect(pools[0], FULL)
    other.collect(pools[1], FULL)
    one, two = native.rollout(), other.rollout()
    same = np.isclose(one["obs"], two["obs"], atol=1e-3).reshape(*one["valid"].shape, -1).all(-1).all(0)
    assert same.mean() > 0.9
    np.testing.assert_allclose(one["action"][:, same], two["action"][:, same], atol=1e-4)
    ended = one["truncated"][:, same]
    np.testing.assert_allclose(one["bootstrap"][:, same][ended], two["bootstrap"][:, same][ended], atol=1e-5)
    for name in ("value", "log_prob", "advantage", "target", "weight"):
        np.testing.assert_allclose(one[name][:, same], two[name][:, same], atol=1e-4, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("task", ["real, choices", "real, continuous", "states, masks"])
def test_an_update_moves_as_the_native_one(task: str) -> None:
    """From the same rollout, statistics of observations included; minibatches come in the same order."""
    normalize = TASKS[task].env != "taxi"
    native, other = both(
        TASKS[task], {"hidden": [16]}, 24, 12, normalize_observations=normalize, normalize_rewards=True
    )
    settings = {**FULL, "epochs": 2, "minibatch_size": 100, "max_gradient_norm": 0.3}
    pool = pool_of(TASKS[task].env, TASKS[task].options, 24)
    for iteration in range(2):
        settings = {**settings, "iteration": iteration}
        native.collect(pool, settings)
        for name, array in native.rollout().items():
            other.rollout()[name][...] = array
        one, two = native.update(settings), other.update(settings)
        for name in ("epochs", "gradient_steps", "dropped"):
            assert one[name] == two[name], name
        for name in ("policy_loss", "value_loss", "entropy", "kl", "gradient_norm"):
            assert two[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5), name
    for name, array in native.arrays().items():
        np.testing.assert_allclose(array, other.arrays()[name], atol=2e-5, rtol=1e-4, err_msg=name)
    theirs = other.state()
    assert native.state().keys() == theirs.keys()
    for name, array in native.state().items():
        np.testing.assert_allclose(array, theirs[name], atol=2e-5, rtol=2e-3, err_msg=name)


@pytest.mark.parametrize("task", TASKS)
def test_the_first_ratio_is_one(task: str) -> None:
    _, other = both(TASKS[task], {"hidden": [24, 17]}, 21, 11)
    other.collect(pool_of(TASKS[task].env, TASKS[task].options, 21), FULL)
    _, result = other.gradient(SETTINGS)
    assert result["clip_fraction"] == 0.0
    # The divergence is half the square of what the ratio is off one.
    assert abs(result["kl"]) < 0.5 * 1e-5**2 + 1e-7


def test_a_checkpoint_goes_both_ways() -> None:
    native, other = both(TASKS["real, continuous"], {"hidden": [16]}, 8, 8, normalize_observations=True)
    pool = pool_of("pendulum", {}, 8)
    other.iterate(pool, FULL, 2, 1e9)
    native.set_arrays(other.arrays())
    native.set_state(other.state())
    for one, two in ((native.arrays(), other.arrays()), (native.state(), other.state())):
        for name, array in one.items():
            np.testing.assert_array_equal(array, two[name], err_msg=name)
    obs = native.rollout()["obs"][0]
    np.testing.assert_allclose(values_of(native, obs), values_of(other, obs), atol=1e-5)
    native.iterate(pool, {**FULL, "iteration": 2}, 1, 1e9)
    other.set_arrays(native.arrays())
    other.set_state(native.state())
    assert int(other.state()["adam.steps"][0]) == int(native.state()["adam.steps"][0])
