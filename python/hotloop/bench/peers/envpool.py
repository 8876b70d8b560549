"""EnvPool: envs in C++, stepped by threads of its own.

It is measured in all the ways in which it might be fastest: `step` on all envs at once, with the threads of the case
and with one, for handing envs around can cost more than a second thread brings; and `send`/`recv` of the half that is
ready first, which keeps its threads busy while Python works.
"""

import warnings
from contextlib import ExitStack
from typing import Any

import numpy as np

from hotloop.bench.actions import Array, batches_for, random_actions
from hotloop.bench.measure import Contender
from hotloop.bench.peers import Case, Entry, Peer

IDS = {
    "cartpole": "CartPole-v1",
    "mountain-car": "MountainCar-v0",
    "acrobot": "Acrobot-v1",
    "pendulum": "Pendulum-v1",
    "frozen-lake": "FrozenLake-v1",
    "cliff-walking": "CliffWalking-v1",
    "taxi": "Taxi-v3",
}


def _enter(case: Case, stack: ExitStack) -> list[Entry]:
    if case.env not in IDS:
        return []
    with warnings.catch_warnings():
        # EnvPool makes its spaces, with bounds of a precision that Gymnasium warns of, when they are first used.
        warnings.simplefilter("ignore")
        entries = [_all_at_once(case, threads, stack) for threads in sorted({1, case.threads})]
        if case.num_envs > 1:
            entries.append(_ready_first(case, stack))
    return entries


def _all_at_once(case: Case, threads: int, stack: ExitStack) -> Entry:
    envs = _make(case, case.num_envs, threads, stack)
    envs.reset()
    return _entry(f"EnvPool step, threads={threads}", case, envs, envs.step, case.num_envs)


def _ready_first(case: Case, stack: ExitStack) -> Entry:
    batch = case.num_envs // 2
    envs = _make(case, batch, case.threads, stack)
    envs.async_reset()

    def step(actions: Array) -> None:
        *_, info = envs.recv()
        envs.send(actions, info["env_id"])

    return _entry(f"EnvPool send/recv of {batch}, threads={case.threads}", case, envs, step, batch)


def _make(case: Case, batch: int, threads: int, stack: ExitStack) -> Any:
    import envpool

    envs = envpool.make_gymnasium(IDS[case.env], num_envs=case.num_envs, batch_size=batch, num_threads=threads, seed=0)
    stack.callback(envs.close)
    envs.observation_space  # noqa: B018
    return envs


def _entry(name: str, case: Case, envs: Any, step: Any, batch: int) -> Entry:
    count = batches_for(batch)
    actions = random_actions(envs.action_space, batch, count)
    if actions[0].dtype == np.int64:
        # The dtype of EnvPool's discrete envs; it would convert any other in every step.
        actions = [batch_actions.astype(np.int32) for batch_actions in actions]
    return Entry(Contender(name, step, actions, work_per_pass=count * batch), case.num_envs)


PEER = Peer(
    "envpool", "EnvPool", "as many envs, at most as many threads, step or send/recv: its best", "envpool", _enter
)
