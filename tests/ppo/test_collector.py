"""The native policy serving a runner gives the very rollouts, and weights, of the native way."""

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
def test_served_rollouts_and_weights_are_those_of_the_native_way(
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
