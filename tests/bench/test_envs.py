"""The suite `envs` measures what it was asked to, and every env can be measured."""

import pytest

import hotloop
from hotloop.bench import comparison
from hotloop.bench.comparison import PeerResult
from hotloop.bench.envs import CaseError, plan, run
from hotloop.bench.measure import Rate
from hotloop.bench.peers import Case, Entry, Peer
from hotloop.bench.peers.gymnasium import SYNC, VECTOR

NAMES = [env.name for env in hotloop.list_envs()]


def test_usual_cases_of_cartpole_cover_one_env_many_and_very_many() -> None:
    pairs = {(case.num_envs, case.threads) for case in plan(["cartpole"], all_threads=2)}
    assert pairs == {(1, 1), (4096, 1), (4096, 2), (65536, 1), (65536, 2)}


def test_one_core_gives_no_case_twice() -> None:
    cases = plan(NAMES, all_threads=1)
    assert len(cases) == len(set(cases))
    assert {case.threads for case in cases} == {1}


def test_quick_takes_one_case_per_env() -> None:
    assert [case.env for case in plan(NAMES, all_threads=2, quick=True)] == NAMES


def test_given_numbers_are_combined() -> None:
    assert plan(["taxi"], num_envs=[3, 5], threads=[2, 1], all_threads=8) == [
        Case("taxi", 3, 2),
        Case("taxi", 3, 1),
        Case("taxi", 5, 2),
        Case("taxi", 5, 1),
    ]
    assert plan(["taxi"], num_envs=[7], all_threads=8) == [Case("taxi", 7, 8)]


@pytest.mark.parametrize("env", NAMES)
def test_every_env_is_measured(env: str) -> None:
    shares = []
    row = run(Case(env, 5, 2), [], seconds=1e-4, rounds=2, progress=lambda _, share: shares.append(share))
    assert row.rate.value > 0
    assert row.peers == {}
    assert shares == pytest.approx([0, 1 / 3, 2 / 3])


def test_ratios_are_of_the_medians() -> None:
    row = run(Case("cartpole", 40, 1), [SYNC, VECTOR], seconds=1e-4, rounds=3)
    assert list(row.peers) == ["gymnasium-sync", "gymnasium-vector"]
    for name, peer in row.peers.items():
        assert row.ratio(name) == row.rate.value / peer.rate.value
    assert row.ratio("envpool") is None


def test_the_fastest_of_a_peers_ways_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    sync, vector = SYNC.enter, VECTOR.enter
    both: Peer[Case] = Peer(
        "both", "Both", "", "gymnasium", lambda case, stack: [*sync(case, stack), *vector(case, stack)]
    )
    monkeypatch.setattr(comparison, "measure", lambda *_, **__: [Rate((90.0,)), Rate((10.0,)), Rate((30.0,))])
    row = run(Case("cartpole", 40, 1), [both], seconds=1, rounds=1)
    assert row.peers["both"] == PeerResult("Gymnasium vector", 40, Rate((30.0,)))
    assert row.ratio("both") == 3


def test_a_peer_without_the_env_is_left_out() -> None:
    entries: list[Entry] = []
    absent: Peer[Case] = Peer("absent", "Absent", "", "gymnasium", lambda case, stack: entries)
    assert run(Case("recall", 2, 1), [absent], seconds=1e-4, rounds=1).peers == {}


def test_what_a_row_says_as_json() -> None:
    row = run(Case("cartpole", 40, 1), [SYNC], seconds=1e-4, rounds=2).as_json()
    assert row["name"] == "cartpole envs=40 threads=1"
    assert row["unit"] == "steps/s"
    assert row["ratio"].keys() == row["peers"].keys() == {"gymnasium-sync"}
    assert row["peers"]["gymnasium-sync"]["num_envs"] == 32
    assert len(row["rounds"]) == 2


def test_a_case_that_cannot_be_made_says_why() -> None:
    with pytest.raises(CaseError, match="cartpole: num_threads is 99999"):
        run(Case("cartpole", 4, 99999), [], seconds=1e-4, rounds=1)
