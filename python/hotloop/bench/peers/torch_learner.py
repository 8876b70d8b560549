"""Our own torch learner as `hotloop train` uses it: what `train.learner=torch` costs beside the native one."""

import math
from contextlib import ExitStack

from hotloop.bench.measure import Contender
from hotloop.bench.peers import Entry, Peer
from hotloop.bench.ppo import PpoCase


def _enter(case: PpoCase, stack: ExitStack) -> list[Entry]:
    from hotloop.bench.train import session_for

    session = session_for(case, learner="torch")
    stack.callback(session.close)

    def advance(_: object) -> None:
        session.advance(1, math.inf)
        session.gather()

    return [Entry(Contender("torch learner", advance, [None], work_per_pass=case.steps), case.num_envs)]


PEER = Peer("torch-learner", "torch learner", "ours with train.learner=torch, the same envs", "torch", _enter)
