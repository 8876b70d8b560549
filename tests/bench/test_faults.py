"""Injected faults are counted by what was injected, not by what was noticed."""

import dataclasses

import pytest

from hotloop.bench.faults import KINDS, Outcome, run

FINE = Outcome(
    injected={"raise": 1, "exit": 0, "sigkill": 1, "sigsegv": 1, "hang": 0},
    reported={"raise": 1, "killed": 2},
    lost_runs=0,
    why_lost="",
    leaked={"processes": 0, "shared_memory": 0, "file_descriptors": 0},
    restarts=2,
    steps=10,
    seconds=1.0,
)


def test_a_run_survives_faults_and_all_are_reported() -> None:
    heard: list[int] = []
    found = run(12, heard.append)
    assert found.survived, found
    assert sum(found.injected.values()) == sum(found.reported.values()) == heard[-1] >= 12
    assert found.injected.keys() == KINDS.keys()
    assert found.steps > 0


@pytest.mark.parametrize(
    "change",
    [
        {"lost_runs": 1},
        {"reported": {"raise": 1, "killed": 1}},
        {"reported": {"raise": 0, "killed": 3}},
        {"leaked": {"processes": 1}},
    ],
)
def test_what_is_lost_is_seen(change: dict[str, object]) -> None:
    assert FINE.survived
    assert not dataclasses.replace(FINE, **change).survived  # type: ignore[arg-type]
