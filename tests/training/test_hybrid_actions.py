"""Envs with discrete and continuous actions are learned, resumed and exported; policies act in the env's own space."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.export import validation
from hotloop.export.blueprint import Blueprint
from hotloop.export.onnx import write_onnx
from hotloop.loading import checkpoint_policy
from hotloop.training.checkpoint import open_policy
from tests.envs.hybrid_envs import Archery

ENV = "tests.envs.hybrid_envs:Archery"
SMALL: dict[str, Any] = {
    "runner.num_envs": 32,
    "runner.num_workers": 1,
    "ppo.horizon": 32,
    "ppo.minibatch_size": 256,
    "ppo.epochs": 8,
    "ppo.learning_rate": 0.003,
    "ppo.gamma": 0.5,
    "policy.hidden": [32],
    "policy.log_std": -1.0,
    "track.interval": 1000,
    "train.evaluate_episodes": 100,
}


@pytest.mark.parametrize(
    ("env", "extra"),
    [
        (ENV, {"train.learner": "native"}),
        (ENV, {"train.learner": "torch", "env.masked": True}),
        ("tests.envs.hybrid_envs:Archers", {"runner.num_workers": 0, "runner.num_envs": 16}),
    ],
    ids=["native", "torch, masks", "two agents in this process"],
)
def test_both_parts_of_a_hybrid_action_are_learned(env: str, extra: dict[str, Any], tmp_path: Path) -> None:
    run = hotloop.train(env, steps=40_960, config={**SMALL, **extra}, home=tmp_path, progress=False)
    evaluation = run.evaluation
    assert evaluation is not None
    # Chance gives -0.2; the right choices alone at most 0.6, aim alone 0.33.
    assert evaluation.mean > 0.85


def test_a_policy_returns_actions_of_the_env_and_is_exported(tmp_path: Path) -> None:
    config = {**SMALL, "env.masked": True}
    lines: list[str] = []
    run = hotloop.train(ENV, steps=8192, config=config, home=tmp_path, progress=False)
    resumed = hotloop.train(ENV, resume=run.path, steps=32_768, home=tmp_path, progress=False)
    agent = hotloop.load(resumed.path)
    env = Archery(masked=True)
    obs, info = env.reset(seed=0)
    earned = []
    for _ in range(50):
        action = agent.act(obs, mask=info["action_mask"])
        assert env.action_space.contains(action)
        obs, reward, _, _, info = env.step(action)
        earned.append(reward)
    assert np.mean(earned) > 0.7
    checkpoint = open_policy(resumed.path, trust=False, warn=lines.append)
    blueprint = Blueprint.of(checkpoint)
    write_onnx(tmp_path / "policy.onnx", blueprint)
    model = validation.onnx_runtime(tmp_path / "policy.onnx")
    assert model is not None
    assert validation.check(model, checkpoint_policy(checkpoint), blueprint).difference < 1e-5
    # The model's action is in the env's own units, as that of the policy.
    flat = np.array([[1, 0, 0, 0.5]], np.float32)
    allowed = np.ones((1, 5), np.bool_)
    (action,) = model({"observation": flat, "action_mask": allowed})["action"]
    own = agent.act({"lane": 0, "position": np.array([0.5], np.float32)}, mask=allowed)
    np.testing.assert_allclose(action, [own["arrow"][0], own["lane"] - 1, own["aim"][0]], rtol=1e-4)
