"""The orchestrator, with real processes: what is queued is run, whatever happens meanwhile."""

import hashlib
import os
import signal
from pathlib import Path

import pytest

import hotloop
from hotloop.orchestrator.folder import JobFolder
from hotloop.training import train
from tests.orchestrator.working import (
    change,
    get,
    living,
    processes_of,
    start_work,
    submit,
    wait_for,
    work_until_done,
    working,
)

LONG = ("train", "cartpole", "--steps", "2M", "--until", "none", "train.evaluate_episodes=0")


def weights(run: Path) -> str:
    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name))
    return hashlib.sha256((newest / "policy.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of the long run, trained without a queue."""
    settings = {"train.evaluate_episodes": 0}
    run = train(
        "cartpole",
        steps=2_000_000,
        until="none",
        config=settings,
        progress=False,
        home=tmp_path_factory.mktemp("home"),
        store="none",
    )
    return weights(run.path)


def is_training(number: int) -> bool:
    job = get(number)
    progress = None if job.folder is None else JobFolder(job.path).read_progress()
    return progress is not None and progress.iterations > 0


def test_jobs_run_in_order_of_their_needs_and_leave_their_results(home: Path) -> None:
    first = submit("train", "cartpole", "--steps", "4096", "train.evaluate_episodes=5")
    second = submit("--after", str(first.number), "eval", f"cartpole-job-{first.number}", "--episodes", "2")
    assert second.state == "waiting"
    work_until_done()
    first, second = get(first.number), get(second.number)
    assert (first.state, second.state) == ("completed", "completed"), (first.why, second.why)
    assert first.result is not None
    assert first.result["steps"] == 4096
    assert first.result["weights"] == weights(Path(first.run or ""))
    assert (first.ended or 0) <= (second.started or 0)


def test_a_job_that_needs_a_failed_one_is_cancelled_and_refused_settings_are_not_retried(home: Path) -> None:
    bad = submit("eval", "no-such-run")
    after = submit("--after", str(bad.number), "bench", "envs", "cartpole", "--quick")
    work_until_done()
    assert (get(bad.number).state, get(bad.number).attempts) == ("failed", 1)
    assert (get(after.number).state, get(after.number).why) == ("cancelled", f"it needs job {bad.number}, which failed")
    assert "no-such-run" in get(bad.number).why


def test_a_killed_orchestrator_is_replaced_and_its_job_adopted(home: Path, undisturbed: str) -> None:
    job = submit(*LONG)
    first = start_work()
    wait_for(lambda: is_training(job.number))
    (child, *_) = processes_of(get(job.number))
    first.kill()
    first.communicate()
    with working("--until-done") as second:
        second.wait()
    done = get(job.number)
    assert (done.state, done.attempts) == ("completed", 1), done.why
    assert not living([child])
    assert done.result is not None
    assert done.result["weights"] == undisturbed


def test_a_killed_job_goes_on_from_its_checkpoint_with_the_same_weights(home: Path, undisturbed: str) -> None:
    job = submit(*LONG)
    with working("--until-done") as process:
        wait_for(lambda: is_training(job.number))
        os.kill(processes_of(get(job.number))[0], signal.SIGKILL)
        process.wait()
    done = get(job.number)
    assert (done.state, done.attempts) == ("completed", 2), done.why
    assert [death["cause"] for death in done.deaths] == ["signal"]
    assert done.result is not None
    assert done.result["weights"] == undisturbed


def test_a_higher_job_preempts_a_lower_one_which_ends_with_the_same_weights(home: Path, undisturbed: str) -> None:
    low = submit(*LONG)
    with working("--limit", "1"):
        wait_for(lambda: is_training(low.number))
        handle = hotloop.submit(
            "cartpole", steps=4096, until="none", config={"train.evaluate_episodes": 0}, priority=50
        )
        assert handle.wait(timeout=120.0)["steps"] == 4096
        wait_for(lambda: get(low.number).is_over)
    high = get(handle.number)
    low = get(low.number)
    assert (low.state, high.state, low.attempts, low.deaths) == ("completed", "completed", 2, [])
    assert (high.ended or 0) < (low.ended or 0)
    assert low.result is not None
    assert low.result["weights"] == undisturbed


def test_pausing_resuming_and_cancelling_a_running_job(home: Path) -> None:
    job = submit(*LONG[:3], "200M", *LONG[4:])
    with working():
        wait_for(lambda: is_training(job.number))
        members = processes_of(get(job.number))
        change("pause", job.number)
        wait_for(lambda: get(job.number).state == "queued")
        change("resume", job.number)
        wait_for(lambda: get(job.number).attempts == 2 and is_training(job.number))
        members += processes_of(get(job.number))
        change("cancel", job.number)
        wait_for(lambda: get(job.number).state == "cancelled")
    assert not living(members)
    assert list((Path(get(job.number).run or "") / "checkpoints").iterdir())


def test_a_job_that_ignores_the_request_to_end_is_killed_with_all_its_processes(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stubborn.py").write_text(
        "import time\n"
        "import gymnasium as gym\n"
        "class Stubborn(gym.Env):\n"
        "    observation_space = gym.spaces.Box(-1, 1, (1,))\n"
        "    action_space = gym.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return self.observation_space.sample(), {}\n"
        "    def step(self, action):\n"
        "        time.sleep(3600)\n"
    )
    job = submit("train", "stubborn:Stubborn", "--steps", "100", "runner.num_envs=1", "ppo.horizon=8")
    with working("--grace", "0.1"):
        wait_for(lambda: get(job.number).state == "running" and len(processes_of(get(job.number))) > 1)
        members = processes_of(get(job.number))
        change("cancel", job.number)
        wait_for(lambda: get(job.number).state == "cancelled")
    wait_for(lambda: not living(members))


def test_an_equal_exact_run_is_answered_from_the_store(home: Path) -> None:
    run = train("cartpole", steps=4096, until="none", config={"train.evaluate_episodes": 0}, progress=False)
    job = submit(
        "train", "cartpole", "--steps", "4096", "--until", "none", "train.evaluate_episodes=0", "runner.num_threads=1"
    )
    assert (job.state, job.run) == ("completed", str(run.path))
    assert job.result is not None
    assert job.result["weights"] == weights(run.path)
    other = submit(
        "train", "cartpole", "--steps", "4096", "--until", "none", "train.evaluate_episodes=0", "--seed", "1"
    )
    assert other.state == "queued"
    fresh = submit("--fresh", "train", "cartpole", "--steps", "4096", "--until", "none", "train.evaluate_episodes=0")
    assert fresh.state == "queued"


def test_code_of_a_job_that_was_submitted_elsewhere_is_not_run(home: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    job = submit("train", f"{tmp_path}/evil.py:Env", "--steps", "100")
    for mark in (home / "trusted").iterdir():
        mark.unlink()
    work_until_done()
    assert get(job.number).state == "failed"
    assert "was not made here" in get(job.number).why
    assert not (tmp_path / "ran").exists()


def test_a_second_orchestrator_is_refused(home: Path) -> None:
    submit(*LONG[:3], "200M", *LONG[4:])
    with working() as first:
        wait_for(lambda: get(1).state == "running")
        second = start_work()
        _, message = second.communicate()
        assert second.returncode == 2
        assert f"process {first.pid}" in message
        change("cancel", 1)
        wait_for(lambda: get(1).state == "cancelled")


def test_idle_cores_go_to_the_jobs_that_run_and_change_no_bit(home: Path, undisturbed: str) -> None:
    from hotloop import _core

    if _core.usable_cores() < 2:
        pytest.skip("one core")
    job = submit(*LONG)
    other = submit(
        "train", "cartpole", "--steps", "4096", "--until", "none", "--seed", "9", "train.evaluate_episodes=0"
    )
    work_until_done("--limit", str(_core.usable_cores()))
    done = get(job.number)
    assert (done.state, get(other.number).state) == ("completed", "completed")
    assert JobFolder(get(other.number).path).asked_threads() == max(1, _core.usable_cores() // 2)
    assert JobFolder(done.path).asked_threads() == _core.usable_cores()
    assert done.result is not None
    assert done.result["weights"] == undisturbed
