"""Peers play the same tasks, with as many envs as they say, and are only touched where they are installed."""

from contextlib import ExitStack
from typing import Any

import gymnasium
import pytest

import hotloop
from hotloop.bench.peers import Case, Peer, every_peer
from hotloop.bench.peers import envpool as envpool_peer
from hotloop.bench.peers import gymnasium as gymnasium_peer

INSTALLED = [peer for peer in every_peer() if peer.installed]


def our_spaces(env: str) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    envs = hotloop.make_vec(env, num_envs=1)
    envs.close()
    return envs.single_observation_space, envs.single_action_space


@pytest.mark.parametrize("peer", INSTALLED, ids=lambda peer: peer.name)
@pytest.mark.parametrize("env", gymnasium_peer.IDS)
def test_a_peer_steps_every_env_that_it_enters(peer: Peer[Case], env: str) -> None:
    with ExitStack() as stack:
        for entry in peer.enter(Case(env, 4, 1), stack):
            assert entry.num_envs == 4
            assert entry.contender.seconds(1) > 0


@pytest.mark.parametrize("peer", INSTALLED, ids=lambda peer: peer.name)
def test_a_peer_does_not_enter_what_it_does_not_have(peer: Peer[Case]) -> None:
    with ExitStack() as stack:
        assert peer.enter(Case("recall", 4, 1), stack) == []


@pytest.mark.parametrize(("env", "id"), gymnasium_peer.IDS.items())
def test_gymnasium_plays_with_the_same_spaces(env: str, id: str) -> None:
    with gymnasium.make(id) as single:
        assert our_spaces(env) == (single.observation_space, single.action_space)


@pytest.mark.parametrize(("env", "id"), envpool_peer.IDS.items())
def test_envpool_plays_with_spaces_of_the_same_shape(env: str, id: str) -> None:
    envpool = pytest.importorskip("envpool")
    theirs = envpool.make_gymnasium(id, num_envs=1)
    for ours, other in zip(our_spaces(env), (theirs.observation_space, theirs.action_space), strict=True):
        assert type(ours) is type(other)
        assert getattr(ours, "n", ours.shape) == getattr(other, "n", other.shape)


def test_envpool_is_measured_in_all_of_its_ways() -> None:
    pytest.importorskip("envpool")
    with ExitStack() as stack:
        entries = envpool_peer.PEER.enter(Case("cartpole", 8, 2), stack)
        assert [entry.contender.name for entry in entries] == [
            "EnvPool step, threads=1",
            "EnvPool step, threads=2",
            "EnvPool send/recv of 4, threads=2",
        ]
        (only,) = envpool_peer.PEER.enter(Case("cartpole", 1, 1), stack)
        assert only.contender.name == "EnvPool step, threads=1"


def test_python_envs_are_few() -> None:
    with ExitStack() as stack:
        (entry,) = gymnasium_peer.SYNC.enter(Case("cartpole", 4096, 2), stack)
        assert entry.num_envs == 32
        assert entry.contender.work_per_pass == 32 * len(entry.contender.inputs)


def test_a_package_that_is_not_there_is_noticed_without_importing_it() -> None:
    assert not Peer("nobody", "Nobody", "", "no_such_package", lambda case, stack: []).installed
    assert gymnasium_peer.SYNC.installed
    assert gymnasium_peer.SYNC.version == gymnasium.__version__
