"""Gymnasium's own envs: its vectorised NumPy env where it has one, and its Python envs in one or many processes."""

import functools
import multiprocessing
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import gymnasium

from hotloop.bench.actions import batches_for, random_actions
from hotloop.bench.measure import Contender
from hotloop.bench.peers import Case, Entry, Peer

IDS = {
    "cartpole": "CartPole-v1",
    "mountain-car": "MountainCar-v0",
    "acrobot": "Acrobot-v1",
    "pendulum": "Pendulum-v1",
    "frozen-lake": "FrozenLake-v1",
    "cliff-walking": "CliffWalking-v1",
    "taxi": "Taxi-v4",
}
# Names of Gymnasium's Python envs, stepped by our worker processes.
PREFIX = "gymnasium:"
# More Python envs are no faster, and each asynchronous one is a process.
MOST_PYTHON_ENVS = 32


def _vector(case: Case, stack: ExitStack) -> list[Entry]:
    spec = gymnasium.registry.get(IDS.get(case.env, ""))
    if spec is None or spec.vector_entry_point is None:
        return []
    return [_entry("Gymnasium vector", gymnasium.make_vec(spec, num_envs=case.num_envs), stack)]


def _sync(case: Case, stack: ExitStack) -> list[Entry]:
    makers = _makers(case)
    return [_entry("Gymnasium sync", gymnasium.vector.SyncVectorEnv(makers), stack)] if makers else []


def _async(case: Case, stack: ExitStack) -> list[Entry]:
    makers = _makers(case)
    if not makers:
        return []
    # Processes are forked from a clean server: this one has threads by now.
    multiprocessing.set_forkserver_preload(["gymnasium"])
    return [_entry("Gymnasium async", gymnasium.vector.AsyncVectorEnv(makers, context="forkserver"), stack)]


def _makers(case: Case) -> list[Callable[[], gymnasium.Env[Any, Any]]]:
    """Make an env without Gymnasium's checker, which slows down every step."""
    id = case.env.removeprefix(PREFIX) if case.env.startswith(PREFIX) else IDS.get(case.env)
    if id is None or id not in gymnasium.registry:
        return []
    return [functools.partial(gymnasium.make, id, disable_env_checker=True)] * min(case.num_envs, MOST_PYTHON_ENVS)


def _entry(name: str, envs: gymnasium.vector.VectorEnv[Any, Any, Any], stack: ExitStack) -> Entry:
    stack.callback(envs.close)
    envs.reset(seed=0)
    count = batches_for(envs.num_envs)
    actions = random_actions(envs.single_action_space, envs.num_envs, count)
    return Entry(Contender(name, envs.step, actions, work_per_pass=count * envs.num_envs), envs.num_envs)


VECTOR = Peer("gymnasium-vector", "Gymnasium vector", "as many envs, in NumPy", "gymnasium", _vector)
SYNC = Peer("gymnasium-sync", "Gymnasium sync", f"at most {MOST_PYTHON_ENVS} envs in one process", "gymnasium", _sync)
ASYNC = Peer(
    "gymnasium-async", "Gymnasium async", f"at most {MOST_PYTHON_ENVS} envs, each a process", "gymnasium", _async
)
