"""The native learner: acting, and losses of an unchanged policy."""

from typing import Any

import numpy as np
import pytest

from hotloop import _core
from hotloop.policies.protocol import ActRequest
from tests.ppo.reference import SETTINGS, values_of

ENVS: list[tuple[str, dict[str, Any]]] = [
    ("cartpole", {}),
    ("pendulum", {}),
    ("frozen-lake", {}),
    ("taxi", {}),
    ("tictactoe", {"observation": "board"}),
    ("tag", {"seats": 3}),
]


def collected(
    env: str, options: dict[str, Any], envs: int = 21, horizon: int = 11, **keywords: Any
) -> _core.PpoLearner:
    rows = envs * _core.describe(env, options)["seats"]
    learner = _core.PpoLearner(env, options, {"hidden": [24, 17]}, rows=rows, horizon=horizon, seed=5, **keywords)
    pool = _core.Pool(env, envs, num_threads=1, num_groups=2, options=options, autoreset="same_step")
    pool.seed(5)
    pool.reset()
    learner.collect(pool, SETTINGS)
    return learner


@pytest.mark.parametrize(("env", "options"), ENVS)
def test_the_first_ratio_is_exactly_one(env: str, options: dict[str, Any]) -> None:
    learner = collected(env, options)
    _, result = learner.gradient(SETTINGS)
    assert result["kl"] == 0.0
    assert result["clip_fraction"] == 0.0


def test_a_row_does_not_depend_on_its_batch_mates() -> None:
    learner = collected("pendulum", {})
    obs = learner.rollout()["obs"][0]
    together = learner.act(ActRequest(obs, None, deterministic=False, seed=9, step=3))
    for row in range(len(obs)):
        alone = learner.act(ActRequest(obs[row : row + 1], None, deterministic=False, seed=9, step=3, first_row=row))
        for all_rows, own in zip(together, alone, strict=True):
            np.testing.assert_array_equal(all_rows[row], own[0])


@pytest.mark.parametrize(("env", "options"), ENVS)
def test_values_of_the_rollout_are_those_of_acting(env: str, options: dict[str, Any]) -> None:
    learner = collected(env, options)
    rollout = learner.rollout()
    for slot in range(len(rollout["value"])):
        np.testing.assert_array_equal(rollout["value"][slot], values_of(learner, rollout["obs"][slot]))


@pytest.mark.parametrize(("env", "options"), [entry for entry in ENVS if entry[0] in ("taxi", "tictactoe", "tag")])
def test_forbidden_choices_are_never_drawn(env: str, options: dict[str, Any]) -> None:
    learner = collected(env, options, envs=64, horizon=16)
    rollout = learner.rollout()
    allowed = np.take_along_axis(rollout["mask"][:-1], rollout["action"][..., None].astype(np.int64), -1)[..., 0]
    assert allowed[rollout["valid"][:-1]].all()


def test_weights_and_state_come_back(tmp_path: object) -> None:
    learner = collected("cartpole", {}, normalize_observations=True, normalize_rewards=True)
    learner.update(SETTINGS)
    other = collected("cartpole", {}, normalize_observations=True, normalize_rewards=True)
    other.set_arrays(learner.arrays())
    other.set_state(learner.state())
    for one, two in ((learner.arrays(), other.arrays()), (learner.state(), other.state())):
        assert one.keys() == two.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, two[name], err_msg=name)


def test_arrays_that_do_not_fit_are_refused() -> None:
    learner = collected("cartpole", {})
    arrays = learner.arrays()
    name = next(iter(arrays))
    with pytest.raises(ValueError, match="missing"):
        learner.set_arrays({key: array for key, array in arrays.items() if key != name})
    with pytest.raises(ValueError, match="shape"):
        learner.set_arrays({**arrays, name: np.zeros((3, 3), np.float32)})


def test_policies_that_cannot_be_built_are_refused() -> None:
    for policy, reason in (({"hidden": []}, "hidden"), ({"hidden": [0]}, "hidden"), ({"activation": "swish"}, "swish")):
        with pytest.raises(ValueError, match=reason):
            _core.PpoLearner("cartpole", None, policy, rows=1, horizon=1, seed=0)


def test_frozen_policies_play_their_seats_and_only_the_learner_trains() -> None:
    envs, seats, horizon = 8, 3, 12
    options = {"seats": seats}
    policy = {"hidden": [16]}
    learner = _core.PpoLearner("tag", options, policy, rows=envs * seats, horizon=horizon, seed=0)
    other = _core.PpoLearner("tag", options, {"hidden": [8, 8]}, rows=1, horizon=1, seed=77)
    learner.set_opponents([({"hidden": [8, 8]}, other.arrays(), other.statistics())])
    pool = _core.Pool("tag", envs, num_threads=1, num_groups=2, options=options, autoreset="same_step")
    pool.seed(3)
    table = np.zeros((envs, seats), np.int64)
    table[:, 1] = 1
    pool.set_policies(table.ravel().tolist())
    pool.reset()
    learner.collect(pool, SETTINGS)
    rollout = learner.rollout()
    frozen = rollout["policy"][:-1] == 1
    assert frozen.reshape(horizon, envs, seats)[..., 1].all()
    assert frozen.sum() == horizon * envs
    assert (rollout["weight"][frozen] == 0).all()
    assert (rollout["weight"][~frozen & rollout["valid"][:-1]] == 1).all()
    # The rows of the frozen policy hold its own values.
    slot, rows = 4, np.flatnonzero(frozen[4])
    np.testing.assert_array_equal(rollout["value"][slot, rows], values_of(other, rollout["obs"][slot, rows]))
    before = learner.arrays()
    learner.update(SETTINGS)
    assert any((before[name] != array).any() for name, array in learner.arrays().items())


def test_a_description_stands_for_an_env_and_a_wrong_one_is_named() -> None:
    description = _core.describe("cartpole")
    by_name = _core.PpoLearner("cartpole", None, {"hidden": [8]}, rows=1, horizon=1, seed=0).arrays()
    by_spaces = _core.PpoLearner(description, None, {"hidden": [8]}, rows=1, horizon=1, seed=0).arrays()
    assert all((by_spaces[name] == array).all() for name, array in by_name.items())
    for part, found in (("kind", "graph"), ("n", 0)):
        wrong = {**description, "action": {**description["action"], part: found}}
        with pytest.raises(ValueError, match=r"graph|at least one"):
            _core.PpoLearner(wrong, None, {"hidden": [8]}, rows=1, horizon=1, seed=0)
