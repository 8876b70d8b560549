"""`hotloop sweep` keeps its contract with people and scripts; real processes."""

import csv
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import complaint, hotloop, hotloop_json

QUICK = ("--sampler", "sobol", "--steps", "2k", "train.evaluate_episodes=4", "sweep.confirm.seeds=2")
RATE = "ppo.learning_rate=log(1e-3, 1e-2)"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path))
    return tmp_path


def test_a_sweep_from_its_start_to_a_run_with_its_settings(home: Path) -> None:
    events = hotloop_json("sweep", "cartpole", RATE, "--trials", "3", "--name", "mine", *QUICK, "sweep.confirm.top=1")
    assert [event["event"] for event in events].count("trial") == 3
    assert [event["event"] for event in events].count("confirm") == 2
    end = events[-1]
    assert end["completed"]
    assert end["best"]["confirmed_low"] <= end["best"]["confirmed"] <= end["best"]["confirmed_high"]
    best, rate = end["best"]["index"], end["best"]["settings"]["ppo.learning_rate"]

    # The winner's run has the weights of the trial.
    run = home / "runs" / end["kept"][str(best)]
    assert (run / "config.yaml").exists()
    assert hotloop("verify", run.name).returncode == 0

    assert "mine" in hotloop("sweep", "list").stdout
    shown = hotloop("sweep", "show", "mine").stdout
    assert f"best: trial {best}, return" in shown
    assert "importance: ppo.learning_rate" in shown
    assert f"ppo.learning_rate={rate}" in hotloop("sweep", "best", "mine").stdout
    assert hotloop("sweep", "export", "mine", "-o", str(home / "trials.csv")).returncode == 0
    with (home / "trials.csv").open() as file:
        assert [row["index"] for row in csv.DictReader(file)] == ["0", "1", "2"]

    trained = hotloop_json("train", "cartpole", "--best-of", "mine", "--name", "best")
    assert trained[-1]["steps"] == 2048
    assert f"learning_rate: {rate}" in (home / "runs" / "best" / "config.yaml").read_text()

    assert "same: 6 results of mine" in hotloop("verify", "mine").stdout
    assert "same: trial 1" in hotloop("verify", "mine", "--trial", "1").stdout
    remade = hotloop("sweep", "remake", "mine", "--trial", "2", "-o", str(home / "again"))
    assert "same: trial 2" in remade.stdout
    assert hotloop("eval", str(home / "again" / "2048"), "--episodes", "2").returncode == 0


def test_a_trial_that_differs_from_its_line_is_reported(home: Path) -> None:
    hotloop("sweep", "cartpole", RATE, "--trials", "2", "--name", "mine", *QUICK, "sweep.keep=0")
    journal = home / "sweeps" / "mine" / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    forged = next(line for line in lines if line["task"] == "trial/1")
    forged["sha256"] = "0" * 64
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for command in (("sweep", "remake", "mine", "--trial", "1"), ("verify", "mine")):
        done = hotloop(*command)
        assert done.returncode == 1
        assert "sha256 was" in done.stdout.lower().replace("sha-256", "sha256")


def test_ctrl_c_ends_a_sweep_that_resume_goes_on_with(home: Path) -> None:
    command = ("sweep", "cartpole", RATE, "--trials", "30", "--name", "mine", *QUICK, "sweep.keep=0", "--json")
    process = subprocess.Popen([sys.executable, "-m", "hotloop", *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["event"] != "trial":
        pass
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    events = hotloop_json("sweep", "--resume", "mine")
    assert events[0]["known"] >= 1
    assert events[-1]["trials"] == 30


def test_a_sweep_file_has_space_settings_and_fixed_values(home: Path) -> None:
    file = home / "sweep.yaml"
    file.write_text(
        "env: cartpole\n"
        "sweep: {trials: 4, sampler: grid, grid: 2, keep: 0, confirm: {top: 1, seeds: 2}}\n"
        "space:\n  ppo.epochs: int(1, 2)\n  runner.num_envs, ppo.horizon: choice([32, 64], [64, 32])\n"
        "train: {steps: 2k, evaluate_episodes: 4}\n"
    )
    end = hotloop_json("sweep", "--config", str(file), "--name", "filed")[-1]
    assert end["trials"] == 4
    file.write_text(file.read_text().replace("int(1, 2)", "int(1, 3)"))
    assert "has another definition: space.ppo.epochs was 'int(1, 2)', is 'int(1, 3)'" in complaint(
        "sweep", "--config", str(file), "--resume", "filed"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to search"),
        (("cartpole", "ppo.lr=log(1e-4,1e-2)"), "Did you mean 'ppo.learning_rate'"),
        (
            ("cartpole", "ppo.gamma=real(0.5,1.5)"),
            "space.ppo.gamma: ppo.gamma is 1.5: expected less than or equal to 1",
        ),
        (("cartpole", "env.size=int(1,2)"), "space.env.size: there is no config key 'env.size'"),
        (("cartpole", "ppo.minibatch_size=pow2(4096,8192)"), "every trial would be refused"),
        (("cartpole", RATE, "sweep.trails=3"), "there is no sweep setting 'trails'. Did you mean 'trials'?"),
        (("cartpole", RATE, "sweep.objective=cost"), "expected one, or one and cost"),
        (("cartpole", RATE, "ppo.learning_rate=0.1"), "both fixed and searched"),
        (("cartpole", RATE, "train.minutes=1"), "train.minutes cannot limit trials"),
        (("cartpole", RATE, "--slots", "9"), "slots is 9: expected 1 to 8"),
        (("cartpole", RATE, "--sampler", "pbt", "sweep.prune=median"), "pbt replaces members itself"),
        (("cartpole", "policy.hidden=choice([8],[16])", "--sampler", "pbt"), "a copy of a member cannot change it"),
        (("catpole", RATE), "catpole"),
        (("cartpole", "train.steps=logint(10k,50k)", "sweep.prune=halving-sync"), "compares trials of one length"),
        (("--resume", "nothing"), "there is no sweep 'nothing'"),
        (("best", "nothing"), "there is no sweep 'nothing'"),
    ],
)
def test_a_sweep_that_cannot_run_is_refused_before_anything_starts(
    home: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert message in complaint("sweep", *(arguments or ("run",)))
    assert not (home / "sweeps").exists()


def test_a_terminal_gets_a_live_view_and_the_result() -> None:
    command = ("sweep", "cartpole", RATE, "--trials", "3", "--name", "mine", *QUICK, "sweep.keep=0")
    reading, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", *command], stdout=terminal, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(reading, 65536):
            shown += part
    except OSError:
        pass  # the end of a terminal whose last program has ended
    os.close(reading)
    assert process.wait() == 0
    text = shown.decode(errors="replace")
    for part_of_view in (
        "hotloop sweep",
        "cartpole, 3 trials by sobol",
        "best so far",
        "learning_rate=",
        "best: trial",
    ):
        assert part_of_view in text
