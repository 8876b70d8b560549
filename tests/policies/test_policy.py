"""Agents: what `hotloop.load` gives, and what it does with observations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.errors import CheckpointError
from hotloop.policies.policy import Policy


def agent(env: str, home: Path, **options: Any) -> Policy:
    config = {
        "runner.num_envs": 4,
        "ppo.horizon": 8,
        "ppo.minibatch_size": 8,
        "train.until": None,
        "train.evaluate_episodes": 0,
        **{f"env.{name}": value for name, value in options.items()},
    }
    return hotloop.load(hotloop.train(env, steps=64, config=config, home=home).path)


@pytest.mark.parametrize(
    ("env", "options"),
    [("cartpole", {}), ("pendulum", {}), ("frozen-lake", {}), ("tictactoe", {"observation": "board"}), ("tag", {})],
)
def test_actions_fit_the_env_one_by_one_and_in_batches(env: str, options: dict[str, Any], tmp_path: Path) -> None:
    policy = agent(env, tmp_path, **options)
    with hotloop.make_vec(env, 5, options=options) as envs:
        obs, info = envs.reset(seed=0)
        mask = info.get("action_mask")
        batch = policy.act(obs, mask=mask)
        for row in range(len(obs)):
            alone = policy.act(obs[row], mask=None if mask is None else mask[row])
            np.testing.assert_array_equal(alone, batch[row])
            assert envs.single_action_space.contains(np.asarray(alone, envs.single_action_space.dtype))
        envs.step(batch)


def test_drawn_actions_vary_and_modes_do_not(tmp_path: Path) -> None:
    policy = agent("cartpole", tmp_path)
    obs = np.zeros((64, 4), np.float32)
    assert len(set(policy.act(obs).tolist())) == 1
    drawn = [policy.act(obs, deterministic=False) for _ in range(2)]
    assert set(drawn[0].tolist()) == {0, 1}
    assert (drawn[0] != drawn[1]).any()


def test_masks_are_obeyed(tmp_path: Path) -> None:
    policy = agent("taxi", tmp_path)
    for choice in range(6):
        mask = np.zeros(6, np.int8)
        mask[choice] = 1
        assert policy.act(17, mask=mask) == choice


def test_observations_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    cartpole, lake = agent("cartpole", tmp_path), agent("frozen-lake", tmp_path)
    with pytest.raises(ValueError, match=r"shape \(3,\): expected \(4,\)"):
        cartpole.act([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="not finite"):
        cartpole.act([[0.0] * 4, [0.0, np.nan, 0.0, 0.0]])
    with pytest.raises(ValueError, match="expected 0 to 15"):
        lake.act(16)
    with pytest.raises(TypeError, match="whole numbers"):
        lake.act(0.5)
    with pytest.raises(ValueError, match="mask has shape"):
        agent("taxi", tmp_path).act(3, mask=[1, 1])
    with pytest.raises(ValueError, match="continuous"):
        agent("pendulum", tmp_path).act([1.0, 0.0, 0.0], mask=[1])


def test_a_path_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="neither a run nor a checkpoint"):
        hotloop.load(tmp_path)


def test_a_checkpoint_loads_by_its_own_path(tmp_path: Path) -> None:
    policy = agent("cartpole", tmp_path)
    assert hotloop.load(policy.path).steps == policy.steps
    assert repr(policy) == f"Policy('cartpole', steps={policy.steps})"
