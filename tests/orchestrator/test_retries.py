"""What follows from the death of an attempt."""

import signal

import pytest

from hotloop.orchestrator.folder import Progress
from hotloop.orchestrator.retries import DEFAULT_MEMORY, Death, death_of, judge
from tests.orchestrator.jobs import make_job

AT_12 = Progress(steps=100, iterations=12, seconds=1.0, fraction=0.1)


def test_completed_and_stopped_attempts_are_no_deaths() -> None:
    for code in (0, 130):
        assert death_of({"code": code}, 0, out_of_memory=False, progress=None) is None


@pytest.mark.parametrize(
    ("outcome", "status", "out_of_memory", "cause"),
    [
        ({"code": 2, "why": "no env"}, 2 << 8, False, "refused"),
        (None, 2 << 8, False, "refused"),
        ({"code": 75, "why": "full"}, 75 << 8, False, "no space"),
        (None, 75 << 8, False, "no space"),
        ({"code": 1, "why": "boom"}, 1 << 8, False, "error"),
        ({"code": 1, "why": "", "cause": "out of memory"}, 1 << 8, False, "out of memory"),
        (None, signal.SIGKILL, True, "out of memory"),
        (None, signal.SIGKILL, False, "signal"),
        (None, None, False, "lost"),
    ],
)
def test_causes_of_death(
    outcome: dict[str, object] | None, status: int | None, out_of_memory: bool, cause: str
) -> None:
    death = death_of(outcome, status, out_of_memory=out_of_memory, progress=AT_12)
    assert death is not None
    assert death.cause == cause


def test_refused_settings_are_never_retried() -> None:
    assert judge(make_job(1), Death("refused", "no such env"), None).state == "failed"


def test_retries_wait_longer_each_time_with_jitter() -> None:
    for deaths, seconds in enumerate((1.0, 4.0, 16.0, 64.0, 64.0)):
        job = make_job(1, retries=9, deaths=[{"own_fault": False, "iteration": None, "slack": 0}] * deaths)
        for fraction, expected in ((0.0, seconds), (1.0, 1.25 * seconds), (-1.0, 0.75 * seconds)):
            verdict = judge(job, Death("signal", "killed"), None, fraction)
            assert (verdict.state, verdict.delay) == ("waiting", expected)


def test_a_job_fails_when_its_retries_are_used_up() -> None:
    dead = {"own_fault": False, "iteration": None, "slack": 0}
    verdict = judge(make_job(1, retries=2, deaths=[dead, dead]), Death("signal", "ended by SIGKILL"), None)
    assert (verdict.state, verdict.why) == ("failed", "died 3 times, the last time: ended by SIGKILL")


def test_lack_of_memory_doubles_the_estimate() -> None:
    for job, memory in ((make_job(1), DEFAULT_MEMORY), (make_job(1, peak=5), 5), (make_job(1, memory=7, peak=5), 7)):
        assert judge(job, Death("out of memory", ""), None).memory == 2 * memory


def test_an_exact_run_that_dies_twice_at_the_same_iteration_fails_at_once() -> None:
    death = Death("error", "boom", iteration=12, own_fault=True)
    job = make_job(1, deaths=[death._asdict()])
    assert judge(job, death, "/run/checkpoints/10").why == (
        "dies at iteration 12 every time (boom); its last checkpoint is /run/checkpoints/10"
    )
    assert judge(job, death._replace(iteration=13), None).state == "waiting"
    inexact = make_job(1, exact=False, deaths=[death._asdict()])
    assert judge(inexact, death, None).state == "waiting"


def test_kills_from_outside_at_the_same_iteration_are_retried() -> None:
    death = death_of(None, signal.SIGKILL, out_of_memory=False, progress=AT_12)
    assert death is not None
    assert judge(make_job(1, deaths=[death._asdict()]), death, None).state == "waiting"


def test_faults_near_the_same_iteration_count_as_the_same_place() -> None:
    death = death_of(None, signal.SIGSEGV, out_of_memory=False, progress=AT_12)
    assert death is not None
    assert death.slack > 0
    earlier = death._replace(iteration=12 + death.slack)._asdict()
    assert judge(make_job(1, deaths=[earlier]), death, None).why.startswith("dies near iteration 12 every time")
    later = death._replace(iteration=13 + death.slack)._asdict()
    assert judge(make_job(1, deaths=[later]), death, None).state == "waiting"
