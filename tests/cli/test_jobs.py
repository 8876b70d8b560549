"""`hotloop jobs`, as users call it."""

import re
from pathlib import Path

import pytest

from tests.cli.command import complaint, hotloop, hotloop_json

SHORT = ("train", "cartpole", "--steps", "4096", "--until", "none", "train.evaluate_episodes=0")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HOTLOOP_STORE", raising=False)


def test_jobs_are_queued_worked_off_and_shown(tmp_path: Path) -> None:
    batch = tmp_path / "batch.yaml"
    command = " ".join(SHORT)
    batch.write_text(
        f"jobs:\n  - {{name: first, run: {command} --seed 5, priority: 3}}\n"
        f"  - {{name: second, run: {command} --seed 6, after: first, cores: 1}}\n"
    )
    *jobs, end = hotloop_json("train", *SHORT[1:], "--seeds", "0-1", "--queue")
    assert ([job["state"] for job in jobs], end["jobs"]) == (["queued", "queued"], [1, 2])
    assert [job["priority"] for job in jobs] == [10, 10]
    hotloop_json("jobs", "submit", "--file", str(batch))
    assert hotloop("jobs", "cancel", "2").stdout == "job 2: cancelled\n"
    done = hotloop("jobs", "work", "--until-done", "orchestrator.adaptation_interval=0.05")
    assert done.returncode == 0, done.stderr
    listed = hotloop("jobs", "list").stdout.splitlines()
    assert [re.split(r"\s{2,}", line.strip())[:2] for line in listed[1:]] == [
        ["4", "completed"],
        ["3", "completed"],
        ["2", "cancelled"],
        ["1", "completed"],
    ]
    shown = hotloop("jobs", "show", "4").stdout
    assert "running -> completed" in shown
    assert "steps      4096" in shown
    assert "cartpole-job-4" in hotloop("jobs", "log", "last").stdout
    top = hotloop("jobs", "top").stdout
    assert "3 completed" in top
    assert re.search(r"limit 8 -> 8: .* \(running \d, queued \d, stall [\d.]+, goodput [\d.]+\)", top)
    again = hotloop("train", *SHORT[1:], "--queue", "runner.num_threads=1").stdout
    assert again.startswith("job 1: cartpole seed 0, completed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("submit", "dance"), "jobs of kind 'dance' cannot be queued"),
        (("submit",), "nothing to queue"),
        (("submit", "--cores", "5000", *SHORT), "cores is 5000: the machine that runs the jobs has"),
        (("submit", "--memory", "900T", *SHORT), "memory is 900000000000000 bytes"),
        (("submit", "--memory", "lots", *SHORT), "memory is 'lots': expected bytes"),
        (("submit", "--gpus", "512", *SHORT), "gpus is 512"),
        (("submit", "--after", "7", *SHORT), "there is no job 7 to come after"),
        (("submit", "--after", "x", *SHORT), "--after is 'x'"),
        (("submit", "--not-before", "soon", *SHORT), "--not-before is 'soon'"),
        (("submit", *SHORT, "ppo.epoch=1"), "there is no config key 'ppo.epoch'"),
        (("submit", "train", "cartpole", "--until", "none", "train.steps=null"), "no stopping condition"),
        (("submit", "train", "--resume", "last"), "--resume cannot be queued"),
        (("submit", "--file", "nowhere.yaml"), "cannot read the config nowhere.yaml"),
        (("work", "orchestrator.max_limt=3"), "did you mean orchestrator.max_limit"),
        (("work", "--limit", "0"), "--limit is 0"),
        (("list", "--state", "lost"), "--state is 'lost'"),
        (("move", "1"), "nothing to change"),
        (("show", "3"), "there is no job 3"),
        (("top", "--pace", "0"), "--pace is 0.0"),
    ],
)
def test_mistakes_are_named_before_anything_starts(arguments: tuple[str, ...], message: str) -> None:
    assert message in complaint("jobs", *arguments)


def test_untrusted_code_is_refused_at_submission(tmp_path: Path) -> None:
    run = hotloop_json("train", *SHORT[1:])[-1]["path"]
    elsewhere = tmp_path / "elsewhere"
    Path(run).rename(elsewhere)
    manifest = next(elsewhere.glob("checkpoints/*/manifest.json"))
    manifest.write_text(manifest.read_text().replace('"cartpole"', '"evil.py:Env"'))
    assert hotloop("jobs", "submit", *SHORT, "--init-from", str(elsewhere)).returncode == 2


def test_a_batch_with_a_circle_is_refused(tmp_path: Path) -> None:
    batch = tmp_path / "batch.yaml"
    command = " ".join(SHORT)
    batch.write_text(
        f"jobs:\n  - {{name: a, run: {command}, after: b}}\n  - {{name: b, run: {command} --seed 1, after: a}}\n"
    )
    assert "jobs wait for each other: a -> b -> a" in complaint("jobs", "submit", "--file", str(batch))
    batch.write_text("jobs:\n  - {run: train cartpole, prioritaet: 3}\n")
    assert "there is no key 'prioritaet'" in complaint("jobs", "submit", "--file", str(batch))
