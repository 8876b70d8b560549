"""Evaluation on Python envs: whole episodes, equally many of each env, with the policy's most probable actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hotloop.training.evaluation import Evaluation
from hotloop.training.sources import make_runner

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.policies.acting import Acts

# Steps of one env after which episodes that are not over are left out.
_LONGEST = 100_000


def evaluate_python(
    learner: Acts, config: Config, *, episodes: int, seed: int, deterministic: bool = True
) -> Evaluation:
    """Plays episodes on fresh processes; an episode that a fault cut is played again."""
    envs = min(config.runner.num_envs, episodes)
    runner = make_runner(config.env.name, config.env.options, config.runner, envs)
    with runner:
        quota = -(-episodes // runner.num_envs)
        returns: list[list[float]] = [[] for _ in range(runner.num_envs)]
        lengths: list[list[int]] = [[] for _ in range(runner.num_envs)]
        memory = np.zeros((runner.num_envs, learner.memory_len), np.float32)
        obs, info = runner.reset(seed=seed)
        for step in range(_LONGEST):
            actions, _, _ = learner.act(
                obs,
                info.get("action_mask"),
                deterministic=deterministic,
                seed=seed,
                step=step,
                memory=memory,
                valid=info.get("valid"),
            )
            obs, _, terminated, truncated, info = runner.step(actions)
            over = terminated | truncated
            if over.any():
                memory[over] = 0.0
                told = runner._told_episodes()
                for row, total, length in zip(told["rows"], told["returns"], told["lengths"], strict=True):
                    returns[row].append(float(total))
                    lengths[row].append(int(length))
                if all(len(found) >= quota for found in returns):
                    break
    # Every env's first episodes, so that short ones do not count more often than long ones.
    totals = [found[i] for i in range(quota) for found in returns if i < len(found)][:episodes]
    spans = [found[i] for i in range(quota) for found in lengths if i < len(found)][:episodes]
    return Evaluation.of(np.array(totals), np.array(spans), {})
