"""The cost of recording, estimated within a run: intervals with the recorder's work against their neighbours."""

import pytest

from hotloop.bench.tracking import Tick, lost_beside


def ticks(seconds: list[float], at_work: set[int]) -> list[Tick]:
    """A run of parts of 100 steps; in some of them the recorder takes a millisecond."""
    found = [Tick(10.0, 0, 0.0)]
    for index, part in enumerate(seconds):
        last = found[-1]
        found.append(Tick(last.at + part, last.steps + 100, last.recording + 0.001 * (index in at_work)))
    return found


def test_what_parts_beside_the_recorder_take_longer_is_lost() -> None:
    seconds = [0.01] * 40
    seconds[20] += 0.004
    assert lost_beside(ticks(seconds, {5, 20})) == pytest.approx(0.004 / sum(seconds))


def test_what_the_part_after_the_recorders_work_takes_longer_is_lost_as_well() -> None:
    seconds = [0.01] * 40
    seconds[21] += 0.003
    assert lost_beside(ticks(seconds, {20})) == pytest.approx(0.003 / sum(seconds))


def test_a_machine_that_slows_down_is_no_loss() -> None:
    assert lost_beside(ticks([0.01] * 40 + [0.02] * 40, {10, 70})) == pytest.approx(0.0, abs=1e-9)


def test_slow_parts_without_the_recorder_are_no_loss() -> None:
    seconds = [0.01] * 40
    seconds[3] += 0.1
    assert lost_beside(ticks(seconds, {30})) == pytest.approx(0.0, abs=1e-9)


def test_a_recorder_that_never_rests_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="always at work"):
        lost_beside(ticks([0.01] * 3, {0, 1, 2}))
