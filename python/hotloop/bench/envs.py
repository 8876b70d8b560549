"""The suite `envs`: steps per second through `envs.step`, beside every peer that has the same env.

Native envs are stepped by threads, Python envs by worker processes, which then count as threads.
"""

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

import hotloop
from hotloop.bench import stragglers
from hotloop.bench.actions import batches_for, legal_actions, random_actions
from hotloop.bench.comparison import PeerResult, contest, in_json
from hotloop.bench.measure import Contender, Rate
from hotloop.bench.peers import Case, Peer
from hotloop.envs.registry import is_native
from hotloop.errors import EnvError

UNIT = "steps/s"
ALL = 0
# Numbers of envs and threads (ALL: every usable core) when nothing is said; the first pair is the quick one.
USUAL = {
    "cartpole": ((4096, ALL), (4096, 1), (1, 1), (65536, 1), (65536, ALL)),
    "mountain-car": ((4096, ALL),),
    "acrobot": ((4096, ALL),),
    "pendulum": ((4096, ALL),),
    "gymnasium:CartPole-v1": ((32, ALL),),
    # Each env has a worker of its own there.
    **dict.fromkeys(stragglers.NAMES, ((32, 32),)),
}
USUAL_ELSEWHERE = ((1024, ALL),)
USUAL_IN_PYTHON = ((32, ALL),)
# Measured besides the native envs by default.
IN_PYTHON = ("gymnasium:CartPole-v1", *stragglers.NAMES)
# Steps of a recorded game with masks before it is restarted.
GAME_STEPS = 128


class CaseError(ValueError):
    """A case that cannot be made, such as one with more threads than the runner takes."""


@dataclass(frozen=True)
class Row:
    """A case with our rate, and with each peer's by the peer's name."""

    case: Case
    rate: Rate
    peers: dict[str, PeerResult]

    def ratio(self, peer: str) -> float | None:
        """Return our rate over the peer's; None if the peer lacks the env."""
        return self.rate.value / self.peers[peer].rate.value if peer in self.peers else None

    def as_json(self) -> dict[str, Any]:
        """The row for `--json`."""
        return {
            "name": str(self.case),
            "unit": UNIT,
            **in_json(self.rate, self.peers),
            "env": self.case.env,
            "num_envs": self.case.num_envs,
            "threads": self.case.threads,
        }


def plan(
    envs: Sequence[str],
    *,
    num_envs: Sequence[int] = (),
    threads: Sequence[int] = (),
    all_threads: int,
    quick: bool = False,
) -> list[Case]:
    """Return the cases to measure: each env's defaults, or all combinations of the given numbers."""
    cases = []
    for env in envs:
        usual = USUAL.get(env, USUAL_ELSEWHERE if is_native(env) else USUAL_IN_PYTHON)
        pairs = [(count, number or all_threads) for count, number in usual]
        pairs = pairs[:1] if quick else sorted(set(pairs))
        if num_envs or threads:
            counts, numbers = (dict.fromkeys(each) for each in zip(*pairs, strict=True))
            pairs = list(itertools.product(num_envs or counts, threads or numbers))
        if env in stragglers.NAMES:
            pairs = list(dict.fromkeys((count, count) for count, _ in pairs))
        cases += [Case(env, *pair) for pair in pairs]
    return cases


def run(
    case: Case,
    peers: Sequence[Peer[Case]],
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[str, float], object] = lambda contender, share: None,
) -> Row:
    """Measure one case, ours and the peers' ways taking turns.

    `progress` hears of every single measurement: who is measured, and how much of the case is done. A case with
    impossible numbers raises `CaseError`.
    """
    if case.env in stragglers.NAMES:
        return Row(case, *stragglers.contest(case, seconds=seconds, rounds=rounds, progress=progress))
    ours = _native if is_native(case.env) else _processes
    return Row(case, *contest(case, ours, peers, seconds=seconds, rounds=rounds, progress=progress))


def _processes(case: Case, stack: ExitStack) -> Contender:
    # `step` waits for all: a second group per worker would only be a second time to wake it.
    try:
        envs = hotloop.make_vec(case.env, num_envs=case.num_envs, num_workers=case.threads, groups_per_worker=1)
    except (ValueError, EnvError) as error:
        raise CaseError(f"{case.env}: {error}") from error
    return _entered(envs, stack)


def _native(case: Case, stack: ExitStack) -> Contender:
    try:
        envs = hotloop.make_vec(case.env, num_envs=case.num_envs, num_threads=case.threads)
    except ValueError as error:
        raise CaseError(f"{case.env}: {error}") from error
    return _entered(envs, stack)


def _entered(envs: Any, stack: ExitStack) -> Contender:
    stack.callback(envs.close)
    _, info = envs.reset(seed=0)
    if "action_mask" in info:
        return _legal_game(envs)
    rows = envs.num_envs
    count = batches_for(rows)
    actions = random_actions(envs.single_action_space, rows, count)
    return Contender("Hotloop", envs.step, actions, work_per_pass=count * rows)


def _legal_game(envs: Any) -> Contender:
    """Record a game's actions once; from the same seed they are legal again. Counts deciding rows only."""
    rng = np.random.default_rng(0)
    actions, steps = [], 0
    _, info = envs.reset(seed=0)
    for _ in range(GAME_STEPS):
        actions.append(legal_actions(envs.single_action_space, info["action_mask"], rng))
        steps += int(np.sum(info["valid"])) if "valid" in info else envs.num_envs
        *_, info = envs.step(actions[-1])
    return Contender("Hotloop", envs.step, actions, work_per_pass=steps, rewind=lambda: envs.reset(seed=0))
