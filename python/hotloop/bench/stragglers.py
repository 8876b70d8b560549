"""The rows `stragglers`: an env whose steps are mostly short and sometimes long, ready first and in lock-step.

Ready first, the runner goes on with the envs that are ready; in lock-step it waits for all of them. Both are the same
worker processes of the same runner, taking turns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import numpy as np

from hotloop.bench.comparison import PeerResult
from hotloop.bench.idle_env import IdleEnv
from hotloop.bench.measure import Contender, Rate, measure
from hotloop.bench.peers import Case, Peer

FREE: Final = "stragglers"
TRAINING: Final = "stragglers-training"
NAMES: Final = (FREE, TRAINING)
_SHORT, _LONG, _CHANCE = 0.001, 0.050, 1 / 50
_HORIZON: Final = 64
# A batch is a quarter of the envs.
_PARTS: Final = 4
_BATCHES: Final = 256
_STEPS: Final = 16

LOCK_STEP: Peer[Case] = Peer("lock-step", "lock step", "the same workers, all waited for", "hotloop", lambda *_: [])


class Straggler(IdleEnv):
    """Each step sleeps 1 ms, one in fifty 50 ms; uses almost no CPU."""

    def step(self, action: Any) -> Any:
        """Sleep."""
        time.sleep(_LONG if self.np_random.random() < _CHANCE else _SHORT)
        return super().step(action)


def contest(
    case: Case, *, seconds: float, rounds: int, progress: Callable[[str, float], object]
) -> tuple[Rate, dict[str, PeerResult]]:
    """The rate of the ready-first runner, and that of the same workers in lock-step."""
    with ExitStack() as stack:
        ours, lock_step = (_free if case.env == FREE else _training)(case, stack)
        count = iter(range(1, 2 * (rounds + 1) + 1))
        rate, theirs = measure(
            [ours, lock_step],
            seconds=seconds,
            rounds=rounds,
            progress=lambda contender: progress(contender.name, (next(count) - 1) / (2 * (rounds + 1))),
        )
    return rate, {LOCK_STEP.name: PeerResult("lock-step", case.num_envs, theirs)}


def _free(case: Case, stack: ExitStack) -> list[Contender]:
    """Collecting only, with precomputed actions."""
    from hotloop.runners.processes import ProcessRunner

    batch = -(-case.num_envs // _PARTS)
    runner = ProcessRunner(
        f"{__name__}:{Straggler.__name__}",
        case.num_envs,
        num_workers=case.num_envs,
        groups_per_worker=1,
        groups_per_batch=batch,
        autoreset_mode="same_step",
    )
    stack.callback(runner.close)
    runner.reset(seed=0)
    flying = 0
    actions = np.ones(case.num_envs, np.int64)

    def land() -> None:
        nonlocal flying
        while flying:
            flying -= len(runner.recv().groups)

    def start() -> None:
        nonlocal flying
        land()
        for group in range(runner.num_groups):
            runner.send(actions[:1], group)
        flying = runner.num_groups

    def go_on(_: object) -> None:
        for group in runner.recv().groups:
            runner.send(actions[:1], group)

    return [
        Contender("ready first", go_on, [None] * _BATCHES, work_per_pass=_BATCHES * batch, rewind=start),
        Contender("lock-step", runner.step, [actions] * _STEPS, work_per_pass=_STEPS * case.num_envs, rewind=land),
    ]


def _training(case: Case, stack: ExitStack) -> list[Contender]:
    """Whole iterations of PPO."""
    from hotloop.config import load_config
    from hotloop.training.session import Session
    from hotloop.training.sources import PythonSource

    steps = case.num_envs * _HORIZON
    config = load_config(
        f"{__name__}:{Straggler.__name__}",
        overrides={
            "runner.num_envs": case.num_envs,
            "runner.envs_per_worker": 1,
            "runner.groups_per_worker": 1,
            "ppo.horizon": _HORIZON,
            "ppo.minibatch_size": max(1, steps // 4),
        },
    )
    session = Session(config)
    stack.callback(session.close)
    source = session.source
    assert isinstance(source, PythonSource)

    def wait_for(groups: int) -> Callable[[], None]:
        return lambda: setattr(source.runner, "groups_per_batch", groups)

    def advance(_: object) -> None:
        session.advance(1, math.inf)
        session.gather()

    some, every = -(-case.num_envs // _PARTS), case.num_envs
    return [
        Contender("ready first", advance, [None], work_per_pass=steps, rewind=wait_for(some)),
        Contender("lock-step", advance, [None], work_per_pass=steps, rewind=wait_for(every)),
    ]
