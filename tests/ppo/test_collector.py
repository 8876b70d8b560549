"""Collecting from a runner gives exactly the rollouts, and weights, of collecting natively."""

from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop import _core
from hotloop.ppo.collector import RunnerCollector
from tests.ppo.reference import SETTINGS


@pytest.mark.parametrize("groups_per_batch", [1, 2])
@pytest.mark.parametrize(
    ("env", "options"),
    [("cartpole", {"max_steps": 9}), ("pendulum", {"max_steps": 7}), ("taxi", {"max_steps": 9}), ("tag", {"seats": 3})],
)
def test_rollouts_and_weights_are_those_of_native_collecting(
    env: str, options: dict[str, Any], groups_per_batch: int
) -> None:
    envs, horizon = 24, 13
    rows = envs * _core.describe(env, options)["seats"]

    def learner() -> _core.PpoLearner:
        return _core.PpoLearner(
            env, options, {"hidden": [16]}, rows=rows, horizon=horizon, seed=1, normalize_observations=env != "taxi"
        )

    native, served = learner(), learner()
    pool = _core.Pool(env, envs, num_threads=1, num_groups=3, options=options, autoreset="same_step")
    pool.seed(1)
    pool.reset()
    runner = hotloop.make_vec(
        env,
        envs,
        num_threads=2,
        num_groups=5,
        groups_per_batch=groups_per_batch,
        options=options,
        autoreset_mode="same_step",
    )
    server = RunnerCollector(served, runner, *runner.reset(seed=1))
    for iteration in range(4):
        settings = {**SETTINGS, "iteration": iteration}
        one, two = native.iterate(pool, settings, 1, 1.0), server.iterate(settings)
        ours, theirs = native.rollout(), served.rollout()
        for name, array in ours.items():
            # Only truncated steps have a last observation.
            where = ours["truncated"] if name == "bootstrap" else ...
            np.testing.assert_array_equal(array[where], theirs[name][where], err_msg=f"{name}, iteration {iteration}")
        assert {key: one[key] for key in ("steps", "kl", "value_loss")} == {
            key: two[key] for key in ("steps", "kl", "value_loss")
        }
    for name, array in native.arrays().items():
        np.testing.assert_array_equal(array, served.arrays()[name], err_msg=name)
    runner.close()


class Recording:
    """A learner that counts its forward passes and their rows."""

    def __init__(self, learner: Any) -> None:
        self._learner = learner
        self.batches: list[int] = []

    def act_rows(self, slots: Any, rows: Any, iteration: int) -> Any:
        self.batches.append(len(rows))
        return self._learner.act_rows(slots, rows, iteration)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)


def test_rows_of_all_ready_groups_act_in_one_forward_pass() -> None:
    envs, horizon = 8, 6
    learner: Any = Recording(_core.PpoLearner("cartpole", None, {"hidden": [8]}, rows=envs, horizon=horizon, seed=0))
    with hotloop.make_vec(
        "cartpole", envs, num_threads=1, num_groups=8, groups_per_batch=4, autoreset_mode="same_step"
    ) as runner:
        RunnerCollector(learner, runner, *runner.reset(seed=0)).collect(SETTINGS)
    assert sum(learner.batches) == envs * horizon
    assert learner.batches[0] == envs
    assert set(learner.batches[1:]) == {4}


@pytest.mark.parametrize("rows", [4, 12])
def test_collectors_of_shards_fill_the_rows_of_the_whole_rollout(rows: int) -> None:
    """A shard with global row indices and the same weights collects what the whole run does for its rows."""
    envs, horizon = 24, 12
    policy = {"hidden": [16], "memory": "gru", "memory_size": 6}

    def rollout(first: int, count: int) -> dict[str, Any]:
        learner = _core.PpoLearner(
            "cartpole", {"max_steps": 7}, policy, rows=count, horizon=horizon, seed=1, num_threads=1, first_row=first
        )
        pool = _core.Pool(
            "cartpole", count, num_threads=1, options={"max_steps": 7}, autoreset="same_step", first_env=first
        )
        pool.seed(1)
        pool.reset()
        for iteration in range(2):
            learner.collect(pool, {**SETTINGS, "iteration": iteration})
        return learner.rollout()

    whole, shard = rollout(0, envs), rollout(envs - rows, rows)
    assert whole["truncated"].any()
    for name, array in shard.items():
        where = shard["truncated"] if name == "bootstrap" else ...
        np.testing.assert_array_equal(array[where], whole[name][:, envs - rows :][where], err_msg=name)


@pytest.mark.parametrize("opponents", [0, 1])
def test_an_unknown_policy_is_named_and_the_learner_stays_usable(opponents: int) -> None:
    envs, seats = 4, 2
    options = {"seats": seats}
    policy = {"hidden": [8]}
    learner = _core.PpoLearner("tag", options, policy, rows=envs * seats, horizon=3, seed=0)
    learner.set_opponents([(policy, learner.arrays(), {})] * opponents)
    table = np.zeros((envs, seats), np.int64)
    table[2, 1] = opponents + 1
    expected = f"env 2, seat 1 is to be played by policy {opponents + 1}, but there are {opponents + 1}"
    pool = _core.Pool("tag", envs, num_threads=1, num_groups=2, options=options, autoreset="same_step")
    pool.set_policies(table.ravel().tolist())
    pool.seed(0)
    pool.reset()
    with pytest.raises(ValueError, match=expected):
        learner.collect(pool, SETTINGS)
    with hotloop.make_vec("tag", envs, num_threads=1, options=options, autoreset_mode="same_step") as runner:
        runner.set_policies(table)
        with pytest.raises(ValueError, match=expected):
            RunnerCollector(learner, runner, *runner.reset(seed=0)).collect(SETTINGS)
    pool.set_policies([0] * envs * seats)
    pool.seed(0)
    pool.reset()
    learner.collect(pool, SETTINGS)
    assert (learner.rollout()["weight"] == 1).all()


def test_rows_outside_the_rollout_are_named() -> None:
    learner = _core.PpoLearner("cartpole", None, {"hidden": [8]}, rows=4, horizon=3, seed=0)
    rows = np.arange(4)
    with pytest.raises(ValueError, match="slot 3, row 0: the rollout has 3 slots of 4 rows"):
        learner.act_rows(np.full(4, 3), rows, 0)
    with pytest.raises(ValueError, match="slot 0, row 4: the rollout has 3 slots of 4 rows"):
        learner.act_rows(np.zeros(4, np.int64), rows + 1, 0)
    with pytest.raises(ValueError, match="1 slots for 4 rows"):
        learner.act_rows(np.zeros(1, np.int64), rows, 0)
    learner.rollout()["truncated"][0, 2] = True
    with pytest.raises(ValueError, match="final observations of 0 bytes: expected 16"):
        learner.end_episodes(np.zeros(4, np.int64), rows)
