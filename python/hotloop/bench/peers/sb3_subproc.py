"""Stable-Baselines3's vector env of one process per env."""

from __future__ import annotations

import functools
from contextlib import ExitStack

from hotloop.bench.actions import batches_for, random_actions
from hotloop.bench.measure import Contender
from hotloop.bench.peers import Case, Entry, Peer
from hotloop.bench.peers.gymnasium import MOST_PYTHON_ENVS, PREFIX


def _enter(case: Case, stack: ExitStack) -> list[Entry]:
    """Only for Python envs: beside native ones there are faster peers."""
    import gymnasium
    from stable_baselines3.common.vec_env import SubprocVecEnv

    if not case.env.startswith(PREFIX):
        return []
    number = min(case.num_envs, MOST_PYTHON_ENVS)
    maker = functools.partial(gymnasium.make, case.env.removeprefix(PREFIX), disable_env_checker=True)
    envs = SubprocVecEnv([maker] * number, start_method="forkserver")
    stack.callback(envs.close)
    envs.seed(0)
    envs.reset()
    count = batches_for(number)
    actions = random_actions(envs.action_space, number, count)
    return [Entry(Contender("SB3 SubprocVecEnv", envs.step, actions, work_per_pass=count * number), number)]


PEER = Peer(
    "sb3-subproc",
    "SB3 Subproc",
    f"at most {MOST_PYTHON_ENVS} envs, each a process",
    "stable_baselines3",
    _enter,
)
