"""Peers that benchmarks compare with, one module per package. Peers that are not installed are skipped."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from hotloop.bench.measure import Contender
    from hotloop.bench.ppo import PpoCase

C = TypeVar("C")


@dataclass(frozen=True)
class Case:
    """An env, how many of it are stepped at once, and by how many threads."""

    env: str
    num_envs: int
    threads: int

    def __str__(self) -> str:
        return f"{self.env} envs={self.num_envs} threads={self.threads}"


@dataclass(frozen=True)
class Entry:
    """One way of doing the work of a case, maybe with fewer envs than the case has."""

    contender: Contender
    num_envs: int


@dataclass(frozen=True)
class Peer(Generic[C]):
    """A peer that can run cases of one kind.

    `enter` prepares every way the peer has of doing the work of a case; the fastest of them counts. It returns none if
    the peer does not have the env. Resources to close afterwards go on the stack.
    """

    name: str
    title: str
    conditions: str
    package: str
    enter: Callable[[C, ExitStack], list[Entry]]

    @property
    def installed(self) -> bool:
        """Whether the package is installed; does not import it."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def version(self) -> str:
        """The version of the package."""
        return importlib.metadata.version(self.package)


def every_peer() -> list[Peer[Case]]:
    """Return all known peer runners, installed or not."""
    from hotloop.bench.peers import envpool, gymnasium, sb3_subproc

    return [envpool.PEER, gymnasium.VECTOR, gymnasium.SYNC, gymnasium.ASYNC, sb3_subproc.PEER]


def every_trainer() -> list[Peer[PpoCase]]:
    """Return all known peer PPO implementations, installed or not."""
    from hotloop.bench.peers import jax_ppo, jax_recurrent, sb3_ppo, sb3_recurrent, torch_learner, torch_ppo

    return [torch_learner.PEER, torch_ppo.PEER, jax_ppo.PEER, jax_recurrent.PEER, sb3_ppo.PEER, sb3_recurrent.PEER]
