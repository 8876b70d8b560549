"""One benchmark case, measured for us and for every peer that supports it, in turns."""

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from hotloop.bench.measure import Contender, Rate, measure
from hotloop.bench.peers import Peer

C = TypeVar("C")


@dataclass(frozen=True)
class PeerResult:
    """A peer's best result."""

    how: str
    num_envs: int
    rate: Rate


def contest(
    case: C,
    ours: Callable[[C, ExitStack], Contender],
    peers: Sequence[Peer[C]],
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[str, float], object] = lambda contender, share: None,
) -> tuple[Rate, dict[str, PeerResult]]:
    """Our rate, and each peer's by the peer's name.

    `progress` hears of every single measurement: who is measured, and how much of the case is done.
    """
    with ExitStack() as stack:
        own = ours(case, stack)
        theirs = [(peer.name, entry) for peer in peers for entry in peer.enter(case, stack)]
        contenders = [own, *(entry.contender for _, entry in theirs)]
        shares = (done / (len(contenders) * (rounds + 1)) for done in itertools.count())
        rate, *rates = measure(
            contenders,
            seconds=seconds,
            rounds=rounds,
            progress=lambda contender: progress(contender.name, next(shares)),
        )
    best: dict[str, PeerResult] = {}
    for (name, entry), theirs_rate in zip(theirs, rates, strict=True):
        if name not in best or theirs_rate.value > best[name].rate.value:
            best[name] = PeerResult(entry.contender.name, entry.num_envs, theirs_rate)
    return rate, best


def in_json(rate: Rate, peers: dict[str, PeerResult]) -> dict[str, Any]:
    """Fields of a JSON row that all suites share."""
    return {
        "value": rate.value,
        "spread": rate.spread,
        "ratio": {name: rate.value / peer.rate.value for name, peer in peers.items()},
        "rounds": list(rate.rounds),
        "peers": {
            name: {"how": peer.how, "num_envs": peer.num_envs, "value": peer.rate.value, "spread": peer.rate.spread}
            for name, peer in peers.items()
        },
    }
