"""The short form of the attack; the full one is `make faults-jobs`."""

import errno
import json
import os
import sqlite3
from pathlib import Path

import pytest

from tests.orchestrator.faults import Attack
from tests.orchestrator.working import get, start_work, submit, wait_for, work_until_done, working
from tests.tracking.servers import is_installed, serving


def test_every_job_ends_once_with_the_same_weights_whatever_is_killed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    tally = Attack(home, jobs=6, kills=5, seed=1, steps=300_000, limit=2).run()
    assert tally.held, "\n".join(tally.lines())


def test_jobs_go_on_while_the_store_is_locked_and_are_settled_when_it_is_back(home: Path) -> None:
    job = submit("train", "cartpole", "--steps", "40k", "--until", "none", "train.evaluate_episodes=0")
    process = start_work("--until-done")
    wait_for(lambda: get(job.number).state != "queued")
    connection = sqlite3.connect(home / "hotloop.db", timeout=60.0, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    outcome = Path(get(job.number).folder or "") / "outcome.json"
    wait_for(outcome.exists)
    assert process.poll() is None
    connection.execute("ROLLBACK")
    connection.close()
    process.communicate()
    assert get(job.number).state == "completed"


def test_an_orchestrator_without_its_store_says_so_and_waits(home: Path, tmp_path: Path) -> None:
    # Long enough to be running when the store goes.
    job = submit("train", "cartpole", "--steps", "2M", "--until", "none", "train.evaluate_episodes=0")
    with working("--until-done") as process:
        wait_for(lambda: get(job.number).state == "running")
        aside = tmp_path / "hotloop.db"
        (home / "hotloop.db").rename(aside)
        assert process.stderr is not None
        assert any("is gone" in line for line in process.stderr)
        aside.rename(home / "hotloop.db")
        _, messages = process.communicate()
    assert "is back" in messages
    assert get(job.number).state == "completed"


def test_a_process_of_another_boot_is_not_mistaken_for_the_job(home: Path) -> None:
    from hotloop.orchestrator.folder import JobFolder
    from hotloop.orchestrator.queue import Queue

    job = submit("train", "cartpole", "--steps", "4096", "--until", "none", "train.evaluate_episodes=0")
    folder = JobFolder(home / "jobs" / str(job.number))
    folder.path.mkdir(parents=True)
    (folder.path / "process").write_text(f"{os.getpid()} 1 another-boot")
    with Queue(None, home) as queue:
        queue.change(job.number, ("queued",), "running", "", attempts=1, folder=str(folder.path))
    process = start_work("--until-done")
    process.communicate()
    done = get(job.number)
    assert (done.state, done.attempts, [death["cause"] for death in done.deaths]) == ("completed", 2, ["lost"])


def test_a_job_on_a_full_disk_is_repeated_and_ends_with_the_same_weights(home: Path, tmp_path: Path) -> None:
    from tests.reliability.deaths import compile_library

    words = ("train", "cartpole", "--steps", "40k", "--until", "none", "train.evaluate_episodes=0")
    undisturbed = submit("--key", "undisturbed", *words)
    work_until_done()
    job = submit("--key", "full", *words)
    full = {"LD_PRELOAD": str(compile_library(tmp_path)), "FAULT_ROOT": str(home / "runs"), "FAULT_AT": "30"}
    process = start_work(**full, FAULT_KIND=str(errno.ENOSPC), FAULT_LASTS="1")
    wait_for(lambda: bool(get(job.number).deaths))
    process.kill()
    process.communicate()
    assert get(job.number).deaths[0]["cause"] == "no space", get(job.number).deaths
    work_until_done()
    done, expected = get(job.number).result, get(undisturbed.number).result
    assert done is not None
    assert expected is not None
    assert done["weights"] == expected["weights"]


def test_a_clock_that_was_set_back_does_not_keep_a_retry_waiting(home: Path) -> None:
    from hotloop.orchestrator.queue import Queue

    job = submit("train", "cartpole", "--steps", "4096", "--until", "none", "train.evaluate_episodes=0")
    dead = {"cause": "signal", "own_fault": False, "iteration": None, "slack": 0}
    with Queue(None, home) as queue:
        tomorrow = job.submitted + 86_400.0
        queue.change(job.number, ("queued",), "waiting", "", deaths=json.dumps([dead]), not_before=tomorrow)
    work_until_done()
    assert get(job.number).state == "completed"


def test_a_server_that_is_restarted_finds_its_job_completed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_installed():
        pytest.skip("PostgreSQL's programs are not installed; 'make system-deps' brings them")
    with serving() as server:
        monkeypatch.setenv("HOTLOOP_STORE", server.url)
        job = submit("train", "cartpole", "--steps", "40k", "--until", "none", "train.evaluate_episodes=0")
        process = start_work("--until-done")
        wait_for(lambda: get(job.number).state != "queued")
        outcome = Path(get(job.number).folder or "") / "outcome.json"
        server.stop()
        wait_for(outcome.exists)
        assert process.poll() is None
        server.start()
        _, messages = process.communicate()
        assert process.returncode == 0, messages
        assert get(job.number).state == "completed"
