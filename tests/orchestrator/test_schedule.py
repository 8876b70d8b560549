"""Order and dependencies of jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.errors import JobError
from hotloop.orchestrator.job import Job
from hotloop.orchestrator.schedule import check_cycles, decayed, effective_priority, is_due, order, unmet
from tests.orchestrator.jobs import make_job


def test_higher_priority_starts_first_and_equal_ones_in_order_of_submission() -> None:
    jobs = [make_job(1), make_job(2, priority=5), make_job(3)]
    assert [job.number for job in order(jobs, {}, now=0.0)] == [2, 1, 3]


def test_waiting_ten_minutes_raises_the_priority_by_one() -> None:
    old, new = make_job(1, queued=0.0), make_job(2, priority=1, queued=600.0)
    assert effective_priority(old, 599.0) == 0
    assert [job.number for job in order([old, new], {}, now=600.0)] == [1, 2]
    assert effective_priority(old, -1e6) == 0, "a clock that was set back takes no priority away"


def test_the_least_served_group_starts_first_and_groups_take_turns() -> None:
    jobs = [make_job(n, group_name="a") for n in (1, 2, 3)] + [make_job(n, group_name="b") for n in (4, 5)]
    assert [job.number for job in order(jobs, {"a": 100.0}, now=0.0)] == [4, 5, 1, 2, 3]
    assert [job.number for job in order(jobs, {}, now=0.0)] == [1, 4, 2, 5, 3]


def test_half_of_a_groups_use_is_forgotten_every_hour() -> None:
    assert decayed(100.0, at=0.0, now=3600.0) == pytest.approx(50.0)
    assert decayed(100.0, at=0.0, now=-86_400.0) == 100.0


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), max_size=30))
def test_every_job_is_ordered_once(rows: list[tuple[int, str]]) -> None:
    jobs = [make_job(n, priority=priority, group_name=group) for n, (priority, group) in enumerate(rows)]
    found = order(jobs, {"a": 7.0}, now=0.0)
    assert sorted(job.number for job in found) == list(range(len(jobs)))
    assert [job.priority for job in found] == sorted((job.priority for job in found), reverse=True)


def test_a_start_time_is_kept_but_a_retry_does_not_wait_for_a_clock_that_was_set_back() -> None:
    job = make_job(1, not_before=1000.0)
    assert not is_due(job, 999.0)
    assert is_due(job, 1000.0)
    retried = Job(**{**vars(job), "deaths": [{"cause": "signal"}]})
    assert not is_due(retried, 990.0)
    assert is_due(retried, 1000.0 - 86_400.0)


def test_needs_are_met_by_completion_or_by_any_end() -> None:
    states = {1: "completed", 2: "failed", 3: "running"}
    assert unmet([(1, "ok"), (2, "any")], states) == ([], None)  # type: ignore[arg-type]
    assert unmet([(3, "ok"), (1, "ok")], states) == ([3], None)  # type: ignore[arg-type]
    assert unmet([(2, "ok")], states)[1] == "it needs job 2, which failed"  # type: ignore[arg-type]
    assert unmet([(9, "any")], states)[1] == "it needs job 9, which does not exist"  # type: ignore[arg-type]


def test_a_cycle_is_refused_by_name() -> None:
    check_cycles({"a": ["b", "c"], "b": ["c"], "c": []})
    with pytest.raises(JobError, match="a -> b -> c -> a"):
        check_cycles({"a": ["b"], "b": ["c"], "c": ["a"]})
    with pytest.raises(JobError, match="a -> a"):
        check_cycles({"a": ["a"]})
