"""The monitor: work and waiting of running jobs, and the limit that follows."""

import os
from pathlib import Path

import pytest

from hotloop.config.orchestrator import OrchestratorConfig
from hotloop.orchestrator.attempts import Attempt
from hotloop.orchestrator.folder import JobFolder, Progress, write_progress
from hotloop.orchestrator.goodput import Goodput
from hotloop.orchestrator.monitor import Monitor
from tests.orchestrator.jobs import make_job


def make_attempt(path: Path, number: int, threads: int = 1) -> Attempt:
    path = path / str(number)
    path.mkdir()
    return Attempt(make_job(number, shape="s"), JobFolder(path), threads=threads, memory=0)


def report(attempt: Attempt, steps: int, seconds: float) -> None:
    handle = attempt.folder.open_progress()
    write_progress(handle, Progress(steps, 1, seconds, 0.5))
    os.close(handle)


def test_goodput_counts_work_at_the_best_speed_per_thread_of_such_jobs(tmp_path: Path) -> None:
    goodput, attempt = Goodput(), make_attempt(tmp_path, 1)
    report(attempt, 100, 1.0)
    goodput.sample(attempt, [], 1.0)
    report(attempt, 150, 2.0)
    goodput.sample(attempt, [], 1.0)
    work, stall = goodput.take(2.0)
    assert work == pytest.approx(0.75), "a second at full speed, one at half of it"
    assert stall == 0.0
    other = make_attempt(tmp_path, 2, threads=2)
    report(other, 200, 1.0)
    goodput.sample(other, [], 1.0)
    assert goodput.take(1.0)[0] == pytest.approx(2.0), "two threads at full speed"


def test_jobs_shorter_than_a_sample_count_when_they_end(tmp_path: Path) -> None:
    goodput = Goodput()
    for number in range(4):
        attempt = make_attempt(tmp_path, number)
        report(attempt, 50, 0.5)
        goodput.finish(attempt)
    assert goodput.take(1.0)[0] == pytest.approx(2.0)


def test_a_decision_is_reported_once_with_its_numbers(tmp_path: Path) -> None:
    monitor = Monitor(OrchestratorConfig(base_limit=1), None)
    attempt = make_attempt(tmp_path, 1)
    first = monitor.decide([attempt], 5, 1.0, gpu_wait=0.0)
    assert first is not None
    assert first.what == "limit 1 -> 3: probe up"
    assert (first.facts["running"], first.facts["queued"]) == (1, 5)
    assert monitor.limit == 3
    unfilled = monitor.decide([attempt], 5, 1.0, gpu_wait=0.0)
    assert unfilled is not None
    assert monitor.decide([attempt], 5, 1.0, gpu_wait=0.0) is None
    fixed = Monitor(OrchestratorConfig(), 4)
    assert fixed.decide([attempt], 50, 1.0, gpu_wait=0.0) is None
    assert fixed.limit == 4


def test_deaths_are_counted_anew_after_they_halved_the_limit(tmp_path: Path) -> None:
    monitor = Monitor(OrchestratorConfig(), None)
    for number in range(6):
        monitor.count_end(make_attempt(tmp_path, number), died=True)
    halved = monitor.decide([], 0, 1.0, gpu_wait=0.0)
    assert halved is not None
    assert halved.what == "limit 8 -> 4: 6 of the last 6 attempts died"
    monitor.decide([], 0, 1.0, gpu_wait=0.0)
    assert monitor.limit == 4
    monitor.count_retry("signal")
    monitor.count_start(2.0)
    figures = monitor.figures(0)
    assert (figures["retries"], figures["started"], figures["waited"]) == ({"signal": 1}, 1, 2.0)


def test_the_lower_of_both_upper_bounds_counts_from_the_start() -> None:
    settings = OrchestratorConfig(max_concurrent_tasks=3)
    assert Monitor(settings, None).limit == 3
    assert Monitor(settings, 5).limit == 5, "a limit that was given counts"
