"""Envs with long steps among short ones are measured ready first and in lock-step, with the same workers."""

import pytest

from hotloop.bench.envs import plan, run
from hotloop.bench.peers import Case
from hotloop.bench.stragglers import FREE, NAMES, TRAINING


@pytest.mark.parametrize("name", NAMES)
def test_both_ways_are_measured(name: str) -> None:
    shares: list[float] = []
    row = run(Case(name, 4, 4), [], seconds=1e-3, rounds=1, progress=lambda _, share: shares.append(share))
    assert row.rate.value > 0
    assert list(row.peers) == ["lock-step"]
    assert shares == [0, 0.25, 0.5, 0.75]


def test_each_env_has_a_worker_of_its_own() -> None:
    cases = plan([FREE, TRAINING], num_envs=[8, 4], threads=[1, 2], all_threads=2)
    assert [(case.num_envs, case.threads) for case in cases] == [(8, 8), (4, 4)] * 2
