"""Hybrid actions in both learners: sampling, loss and gradients beside autograd in float64, an update, masks."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hotloop import _core
from hotloop.config import TorchConfig
from hotloop.envs.spec import BoxObservation, EnvSpec, HybridAction
from hotloop.policies.protocol import ActRequest
from hotloop.policies.spec import NetworkSpec
from hotloop.ppo.torch.learner import TorchLearner
from tests.ppo.reference import SETTINGS
from tests.ppo.test_gradients import compare, disturb_rollout, disturb_weights
from tests.ppo.torch.test_parity import FULL

ROWS, HORIZON = 21, 9
ACTION = HybridAction((3, 2, 4), (-1.0, -1.0, -5.0), (1.0, 1.0, 5.0))


def both(masked: bool, shared: bool = True) -> tuple[_core.PpoLearner, TorchLearner]:
    """A native and a torch learner with the same weights."""
    spec = EnvSpec(1, BoxObservation((5,), (-9.0,) * 5, (9.0,) * 5), ACTION, masked)
    policy = NetworkSpec(hidden=(19, 13), shared=shared, log_std=-0.4)
    sizes: dict[str, Any] = {"rows": ROWS, "horizon": HORIZON, "seed": 3, "num_threads": 1}
    native = _core.PpoLearner(spec.to_json(), None, policy.to_json(), **sizes)
    other = TorchLearner(spec, policy, TorchConfig(device="cpu", num_threads=1), **sizes)
    assert native.arrays().keys() == other.arrays().keys()
    for name, array in native.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name], err_msg=name)
    disturb_weights(native, np.random.default_rng(0))
    other.set_arrays(native.arrays())
    return native, other


def act(learner: Any, masked: bool) -> list[NDArray[np.float32]]:
    """Act through a whole rollout of random observations, masks and rewards; return the actions of each step."""
    draw = np.random.default_rng(1)
    rollout, rows = learner.rollout(), np.arange(ROWS)
    rollout["obs"][:] = draw.normal(0, 1, rollout["obs"].shape)
    rollout["reward"][:] = draw.normal(0, 1, rollout["reward"].shape)
    if masked:
        mask = draw.random(rollout["mask"].shape) < 0.6
        mask[..., [0, 3, 5]] = True
        rollout["mask"][:] = mask
    actions = [learner.act_rows(np.full(ROWS, slot), rows, 0) for slot in range(HORIZON)]
    learner.finish_rollout(FULL)
    return actions


@pytest.mark.parametrize("masked", [False, True])
def test_both_learners_sample_the_same_actions(masked: bool) -> None:
    native, other = both(masked)
    for own, theirs in zip(act(native, masked), act(other, masked), strict=True):
        assert own.shape == (ROWS, 6)
        assert own.dtype == np.float32
        np.testing.assert_array_equal(own[:, :3], theirs[:, :3])
        np.testing.assert_allclose(own[:, 3:], theirs[:, 3:], atol=1e-5)
        assert (np.abs(own[:, 3:5]) <= 1).all()
    rollout = native.rollout()
    assert rollout["action"].shape == (HORIZON, ROWS, 3)
    assert rollout["continuous_action"].shape == (HORIZON, ROWS, 3)
    # Real numbers are independent of the choices, whose random numbers come from the same stream.
    noise = rollout["continuous_action"].reshape(-1, 3)
    assert len(np.unique(noise.round(6), axis=0)) == len(noise)
    if masked:
        starts = np.array([0, 3, 5])
        allowed = np.take_along_axis(rollout["mask"][:-1], starts + rollout["action"], axis=-1)
        assert allowed.all()
    for name in ("log_prob", "value", "advantage"):
        np.testing.assert_allclose(rollout[name], other.rollout()[name], atol=1e-4, err_msg=name)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_loss_and_gradients_of_both_learners_are_those_of_float64(shared: bool, masked: bool) -> None:
    native, other = both(masked, shared)
    act(native, masked)
    _, first = native.gradient(SETTINGS)
    assert first["clip_fraction"] == 0.0
    assert first["kl"] == pytest.approx(0.0, abs=1e-7)
    disturb_rollout(native.rollout(), np.random.default_rng(2))
    for name, array in native.rollout().items():
        other.rollout()[name][...] = array
    for learner in (native, other):
        compare(learner, native.rollout(), "tanh", SETTINGS, 1, list(ACTION.choices))  # type: ignore[arg-type]


def test_an_update_moves_both_learners_alike() -> None:
    native, other = both(masked=True)
    act(native, masked=True)
    for name, array in native.rollout().items():
        other.rollout()[name][...] = array
    settings = {**FULL, "epochs": 2, "minibatch_size": 50}
    one, two = native.update(settings), other.update(settings)
    for name in ("policy_loss", "value_loss", "entropy", "kl", "gradient_norm"):
        assert two[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5), name
    for name, array in native.arrays().items():
        np.testing.assert_allclose(array, other.arrays()[name], atol=2e-5, rtol=1e-4, err_msg=name)


def test_the_most_probable_action_has_the_means_within_bounds() -> None:
    native, other = both(masked=True)
    obs = np.random.default_rng(4).normal(0, 3, (ROWS, 5)).astype(np.float32)
    mask = np.zeros((ROWS, 9), np.int8)
    mask[:, [2, 3, 8]] = 1
    request = ActRequest(obs, mask, deterministic=True)
    for learner in (native, other):
        actions, log_prob, _ = learner.act(request)
        assert (actions[:, :3] == [2, 0, 3]).all()
        assert (np.abs(actions[:, 3:]) <= [1, 1, 5]).all()
        # The choices are certain: only the density of the real numbers is left.
        spread = learner.arrays()["log_std"].astype(np.float64)
        assert log_prob == pytest.approx(-(spread + 0.5 * np.log(2 * np.pi)).sum(), abs=1e-5)
