"""Evaluation on Python envs: whole episodes, equally many of each env, with the policy's most probable actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.errors import ConfigError
from hotloop.training.evaluation import LONGEST, Evaluation
from hotloop.training.sources import make_runner

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.envs.spec import EnvSpec
    from hotloop.policies.protocol import BatchPolicy


def evaluate_python(
    learner: BatchPolicy,
    config: Config,
    *,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    known: EnvSpec | None = None,
) -> Evaluation:
    """Plays episodes on fresh processes; an episode that a fault cut is played again.

    `known` is the spec of the env that the policy was trained in, if that has to be checked.
    """
    envs = min(config.runner.num_envs, episodes)
    runner = make_runner(config.env.name, config.env.options, config.runner, envs)
    with runner:
        if known is not None and not known.fits(runner.env_spec):
            raise ConfigError(f"the policy does not fit {config.env.name} with these options: other spaces")
        rows = runner.num_envs
        quota = -(-episodes // rows)
        played: list[list[Any]] = [[] for _ in range(rows)]
        # Of the episodes that are not over.
        total, length = np.zeros(rows), np.zeros(rows, np.int64)
        memory = np.zeros((rows, learner.memory_len), np.float32)
        obs, info = runner.reset(seed=seed)
        everyone = np.ones(rows, np.bool_)
        takes_part = info.get("valid", everyone).copy()
        for step in range(LONGEST):
            valid = info.get("valid", everyone)
            actions, _, _ = learner.act(
                obs,
                info.get("action_mask"),
                deterministic=deterministic,
                seed=seed,
                step=step,
                memory=memory,
                valid=info.get("valid"),
            )
            obs, reward, terminated, truncated, info = runner.step(actions)
            total += reward
            length += valid
            takes_part |= info.get("valid", everyone)
            over = terminated | truncated
            if over.any():
                memory[over], total[over], length[over] = 0.0, 0.0, 0
                told = runner._told_episodes()
                for row, *episode in zip(told["rows"], told["returns"], told["lengths"], strict=True):
                    played[row].append(episode)
                if all(len(played[row]) >= quota for row in np.flatnonzero(takes_part)):
                    break
    for row in np.flatnonzero(takes_part & (length > 0)):
        played[row].append([total[row], length[row]])
    # Every row's first episodes, so that short ones do not count more often than long ones.
    found = [of_row[i] for i in range(quota) for of_row in played if i < len(of_row)][:episodes]
    returns, lengths = np.array(found).reshape(-1, 2).T
    return Evaluation.of(returns, lengths.astype(np.int64), {})
