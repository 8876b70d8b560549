"""The queue in a store: submission, changes of state, requests of users."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop.errors import JobError, LeaseLostError
from hotloop.orchestrator import lease
from hotloop.orchestrator.queue import Queue
from hotloop.tracking.job_queries import job_counts, job_events, jobs_page
from tests.orchestrator.jobs import make_request

SUBMIT = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from hotloop.orchestrator.queue import Queue
from tests.orchestrator.jobs import make_request
queue = Queue({store!r}, Path({home!r}), timeout=60.0)
for key in range({count}):
    queue.submit(make_request(f"job-{{key}}", exact=True))
"""


def test_a_submitted_job_is_queued_with_an_event(queue: Queue) -> None:
    job = queue.submit(make_request("a", priority=3, group="night"))
    assert (job.state, job.priority, job.group_name) == ("queued", 3, "night")
    (event,) = job_events(queue, job.number)
    assert (event["before"], event["after"], event["why"]) == ("", "queued", "submitted")


def test_equal_keys_are_one_job_until_it_failed_or_was_cancelled(queue: Queue) -> None:
    first = queue.submit(make_request("a", exact=True))
    assert queue.submit(make_request("a", exact=True)).number == first.number
    assert queue.change(first.number, ("queued",), "running", "")
    assert queue.submit(make_request("a", exact=True)).number == first.number
    assert queue.change(first.number, ("running",), "failed", "boom")
    second = queue.submit(make_request("a", exact=True))
    assert second.number != first.number
    queue.cancel(second.number)
    assert queue.submit(make_request("a", exact=True)).number not in (first.number, second.number)


def test_a_completed_job_answers_only_if_it_is_exact_or_its_key_was_chosen(queue: Queue) -> None:
    for key, exact, is_reused in (("a", True, True), ("b", False, False), ("user:c", False, True)):
        first = queue.submit(make_request(key, exact=exact))
        queue.change(first.number, ("queued",), "completed", "")
        again = queue.submit(make_request(key, exact=exact))
        assert (again.number == first.number) is is_reused, key


def test_fresh_makes_a_new_job_and_leaves_the_old_one(queue: Queue) -> None:
    first = queue.submit(make_request("a", exact=True))
    second = queue.submit(make_request("a", exact=True), fresh=True)
    assert second.number != first.number
    assert queue.job(first.number).state == "queued"
    assert queue.submit(make_request("a", exact=True)).number == second.number


def test_a_batch_is_submitted_whole_or_not_at_all(queue: Queue) -> None:
    jobs = queue.submit_many([make_request(f"job-{n}") for n in range(1200)])
    assert len({job.number for job in jobs}) == 1200
    with pytest.raises(JobError, match="no job 99999"):
        queue.submit_many([make_request("x"), make_request("y", after=[(99_999, "ok")])])
    assert job_counts(queue) == {"queued": 1200}


def test_jobs_of_a_batch_may_come_after_each_other_but_not_in_a_circle(queue: Queue) -> None:
    first, second = queue.submit_many([make_request("a", label="a"), make_request("b", label="b", after=[("a", "ok")])])
    assert (second.state, second.needs) == ("waiting", [(first.number, "ok")])
    with pytest.raises(JobError, match="wait for each other: c -> d -> c"):
        queue.submit_many(
            [make_request("c", label="c", after=[("d", "ok")]), make_request("d", label="d", after=[("c", "ok")])]
        )
    with pytest.raises(JobError, match="after 'z', but no job of the batch has that name"):
        queue.submit(make_request("e", after=[("z", "ok")]))


def test_moving_a_job_refuses_a_circle(queue: Queue) -> None:
    first = queue.submit(make_request("a"))
    second = queue.submit(make_request("b", after=[(first.number, "ok")]))
    with pytest.raises(JobError, match=f"{first.number} -> {second.number} -> {first.number}"):
        queue.move(first.number, after=[(second.number, "ok")])
    moved = queue.move(first.number, priority=9, group="day")
    assert (moved.priority, moved.group_name, moved.state) == (9, "day", "queued")


def test_a_state_is_changed_by_one_of_several_that_try(queue: Queue) -> None:
    job = queue.submit(make_request("a"))
    assert queue.change(job.number, ("queued",), "running", "")
    assert not queue.change(job.number, ("queued",), "running", "")
    assert [event["after"] for event in job_events(queue, job.number)] == ["queued", "running"]


def test_cancelling_follows_the_state_of_the_job(queue: Queue) -> None:
    job = queue.submit(make_request("a"))
    assert queue.cancel(job.number).state == "cancelled"
    assert queue.cancel(job.number).state == "cancelled"
    running = queue.submit(make_request("b"))
    queue.change(running.number, ("queued",), "running", "")
    assert (queue.cancel(running.number).state, queue.job(running.number).wish) == ("running", "cancel")
    queue.pause(running.number)
    assert queue.job(running.number).wish == "cancel", "a request to cancel stays"
    queue.change(running.number, ("running",), "completed", "", wish="")
    with pytest.raises(JobError, match="completed already"):
        queue.cancel(running.number)


def test_pausing_and_resuming(queue: Queue) -> None:
    job = queue.submit(make_request("a"))
    assert queue.pause(job.number).paused
    assert not queue.resume(job.number).paused
    with pytest.raises(JobError, match="is not paused"):
        queue.resume(job.number)


def test_retrying_a_failed_job_unless_it_was_submitted_again(queue: Queue) -> None:
    job = queue.submit(make_request("a"))
    with pytest.raises(JobError, match="only a failed or cancelled one"):
        queue.retry(job.number)
    queue.change(job.number, ("queued",), "failed", "boom", deaths=json.dumps([{"cause": "signal"}]), answers=0)
    assert (queue.retry(job.number).state, queue.job(job.number).deaths) == ("waiting", [])
    queue.change(job.number, ("waiting",), "failed", "boom", answers=0)
    again = queue.submit(make_request("a"))
    with pytest.raises(JobError, match=f"submitted again as job {again.number}"):
        queue.retry(job.number)


def test_a_job_that_does_not_exist_is_named(queue: Queue) -> None:
    for action in (queue.job, queue.cancel, queue.pause, queue.retry):
        with pytest.raises(JobError, match="there is no job 7"):
            action(7)
    with pytest.raises(JobError, match="names no job"):
        queue.find("seven")
    with pytest.raises(JobError, match=r"no job in .* yet"):
        queue.find("last")


def test_racing_submissions_from_several_processes_make_one_row_each(
    queue: Queue, store: str, tmp_path: Path, repository: Path
) -> None:
    program = SUBMIT.format(root=str(repository), store=store, home=str(tmp_path), count=20)
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    page = jobs_page(queue, limit=None)
    assert sorted(job["name"] for job in page.jobs) == sorted(f"job-{n}" for n in range(20))
    events = queue.query_named("SELECT job FROM job_events")
    assert len(events) == 20


def test_candidates_are_the_first_of_each_group_by_age_and_priority(queue: Queue) -> None:
    requests = [make_request(f"a-{n}", group="a") for n in range(5)]
    requests += [make_request("b", group="b"), make_request("gpu", gpus=1), make_request("paused", priority=99)]
    jobs = queue.submit_many(requests)
    queue.pause(jobs[-1].number)
    queue.move(jobs[3].number, priority=1)
    now = jobs[0].queued + 1.0
    assert [job.name for job in queue.candidates(now, 2, gpus=0)] == ["a-3", "a-0", "b"]
    assert {job.name for job in queue.candidates(now, 2, gpus=1)} == {"a-3", "a-0", "b", "gpu"}
    with queue.writing() as database:
        database.execute("UPDATE jobs SET queued = queued - 1201 WHERE number = ?", (jobs[4].number,))
    assert [job.name for job in queue.candidates(now, 1, gpus=0)] == ["a-4", "b"]


def test_a_glance_at_the_log_shows_that_something_changed(queue: Queue) -> None:
    queue.submit(make_request("a"))
    assert queue.may_have_changed()
    queue.submit(make_request("b"))
    assert queue.may_have_changed()


def test_pages_list_the_newest_first(queue: Queue) -> None:
    queue.submit_many([make_request(f"job-{n}", group="even" if n % 2 == 0 else "odd") for n in range(5)])
    page = jobs_page(queue, group="even", limit=2)
    assert ([job["name"] for job in page.jobs], page.total) == (["job-4", "job-2"], 3)
    assert jobs_page(queue, states=["running"]).jobs == []


def test_one_orchestrator_holds_the_lease_and_a_dead_one_loses_it(
    queue: Queue, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease.acquire(queue)
    lease.beat(queue, {})

    def beat(seconds: float) -> None:
        lease.beat(queue, {})

    with Queue(store, tmp_path) as other, pytest.raises(JobError, match="runs this store already"):
        lease.acquire(other, wait=beat)
    # A silent holder is replaced, and may change nothing from then on.
    monkeypatch.setattr(lease, "SILENCE", 0.0)
    with Queue(store, tmp_path) as other:
        lease.acquire(other, wait=lambda seconds: None)
        with pytest.raises(LeaseLostError):
            queue.note("too late", {})
        with pytest.raises(LeaseLostError):
            lease.beat(queue, {})
        lease.release(other)


def test_the_lease_of_a_process_that_died_is_taken_at_once(
    queue: Queue, store: str, tmp_path: Path, repository: Path
) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(repository)!r})\n"
        "from pathlib import Path\n"
        "from hotloop.orchestrator import lease\n"
        "from hotloop.orchestrator.queue import Queue\n"
        f"lease.acquire(Queue({store!r}, Path({str(tmp_path)!r})))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

    def never(seconds: float) -> None:
        raise AssertionError("waited for a dead process")

    lease.acquire(queue, wait=never)
    assert queue.holder is not None
