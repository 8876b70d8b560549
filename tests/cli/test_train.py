"""`hotloop train` keeps its contract with people, with scripts, and with Ctrl-C; real processes, real signals."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import complaint, hotloop, hotloop_json

# A run that would take days: only a signal ends it.
ENDLESS = ("train", "cartpole", "train.until=null", "--steps", "1000000000000", "--json")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path))
    return tmp_path


class Training:
    """A run in a process of its own, whose events are read as they come."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hotloop", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, event: str) -> dict[str, Any]:
        """Waits for an event of this kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            result: dict[str, Any] = json.loads(line)
            if result["event"] == event:
                return result
        raise AssertionError(f"it ended without {event!r}: {self.process.communicate()}")

    def end(self) -> tuple[int, list[dict[str, Any]], str]:
        """Its exit code, the events that were left, and what it said to people."""
        out, err = self.process.communicate()
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], err


@pytest.fixture
def endless() -> Iterator[Training]:
    training = Training(*ENDLESS)
    yield training
    training.process.kill()
    training.process.communicate()


def test_cartpole_is_solved_and_the_last_line_is_the_result() -> None:
    events = hotloop_json("train", "cartpole")
    start, end = events[0], events[-1]
    assert start["event"] == "start"
    assert start["env"] == "cartpole"
    assert "native" in start["learner"]
    assert {"run", "path", "steps", "seconds", "steps_per_second", "return_mean"} <= end.keys()
    assert end["run"] == start["run"] == Path(end["path"]).name
    assert end["solved"]
    assert end["return_mean"] >= 475
    assert end["evaluation"]["mean"] >= 475
    assert end["evaluation"]["episodes"] == 100


def test_words_come_as_plain_lines_when_nobody_watches() -> None:
    done = hotloop("train", "cartpole", "--steps", "4096", "train.until=null", "--name", "mine")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    first, *_, second_last, last = done.stdout.splitlines()
    assert first == "run mine: cartpole, seed 0"
    assert second_last.startswith("limit of steps reached after 4.10 k steps")
    assert last.endswith("runs/mine")


@pytest.mark.parametrize("width", [100, 80, 50, 44])
def test_a_terminal_gets_a_live_view(width: int) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", "train", "cartpole", "--steps", "200000", "train.until=null"],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(width), "LINES": "40"},
    )
    os.close(theirs)
    shown = b""
    # Reading a terminal that nobody writes to any more is an error on Linux.
    while part := _read(ours):
        shown += part
    os.close(ours)
    assert process.wait() == 0
    text = shown.decode()
    for word in ("steps/s", "episodes", "policy loss", "entropy", "inference", "learn", "cores", "memory"):
        assert word in text
    # Where there is too little room, facts stand below each other, and none is cut off.
    assert "…" not in text
    assert "limit of steps reached" in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_overrides_file_preset_and_options_make_one_config(home: Path) -> None:
    (home / "mine.yaml").write_text("ppo: {epochs: 3, clip: 0.1}\npolicy: {hidden: [32]}\n")
    *_, end = hotloop_json(
        "train", "cartpole", "ppo.epochs=2", "env.gravity=9.0", "--config", str(home / "mine.yaml"),
        "--preset", "fast", "--seed", "7", "--steps", "30000", "--until", "1e9",
    )  # fmt: skip
    config = yaml.safe_load((Path(end["path"]) / "config.yaml").read_text())
    assert config["runner"]["num_envs"] == 256
    assert config["ppo"]["epochs"] == 2
    assert config["ppo"]["clip"] == 0.1
    assert config["policy"]["hidden"] == [32]
    assert config["env"] == {"name": "cartpole", "gravity": 9.0}
    assert (config["train"]["seed"], config["train"]["steps"], config["train"]["until"]) == (7, 30000, 1e9)
    assert end["ended"] == "steps"
    assert not end["solved"]


def test_a_goal_that_was_missed_is_said() -> None:
    done = hotloop("train", "cartpole", "--steps", "4096", "--until", "500")
    assert done.returncode == 0
    assert "before a return of 500 was confirmed" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_with_a_checkpoint_that_resumes(endless: Training, number: signal.Signals) -> None:
    endless.until("progress")
    endless.process.send_signal(number)
    code, events, _ = endless.end()
    assert code == 130
    checkpoint, end = events[-2:]
    assert checkpoint["event"] == "checkpoint"
    assert end["event"] == "end"
    assert end["ended"] == "interrupted"
    assert checkpoint["steps"] == end["steps"] > 0

    start, *_, again = hotloop_json("train", "--resume", "last", "--steps", str(end["steps"] + 10_000))
    assert start["resumed_at"] == end["steps"]
    assert again["run"] == end["run"]
    assert again["steps"] >= end["steps"] + 10_000
    assert hotloop("verify", "last").returncode == 0


def interrupted_twice() -> tuple[int, list[Any], str]:
    # An iteration that would take days.
    training = Training(*ENDLESS, "ppo.epochs=1000000000")
    training.until("start")
    training.process.send_signal(signal.SIGINT)
    assert training.process.stderr is not None
    assert "again to stop at once" in training.process.stderr.readline()
    # Signals within a second of the first are the same request; a later one ends the process.
    while training.process.poll() is None:
        training.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            training.process.wait(timeout=0.2)
    return training.end()


def test_a_second_signal_ends_at_once_in_the_middle_of_an_iteration() -> None:
    # A first signal that comes before the iteration begins ends the run cleanly, which is right but not the point.
    ends = (interrupted_twice() for _ in range(10))
    assert next(end for end in ends if not end[1]) == (130, [], "")


def test_a_verification_that_is_interrupted_says_so_and_nothing_else(home: Path) -> None:
    hotloop_json("train", "cartpole", "--until", "none", "--steps", "3M", "--name", "long")
    temporary = home / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", "verify", "long"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    while process.poll() is None and not list(temporary.glob("hotloop-verify-*/runs/long/checkpoints")):
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "interrupted: nothing was compared\n")


def test_a_finished_run_that_is_resumed_says_what_to_do() -> None:
    hotloop_json("train", "cartpole", "--until", "30", "--name", "done")
    done = hotloop("train", "--resume", "done")
    assert done.returncode == 0
    assert "the run is finished: it reached train.until=30" in done.stdout
    *_, end = hotloop_json("train", "--resume", "done", "--steps", "100k")
    assert (end["ended"], end["steps"] >= 100_000) == ("steps", True)
    assert "--init-from done instead of --resume" in complaint("train", "--resume", "done", "ppo.learning_rate=1e-4")


def test_the_output_names_the_command_to_continue() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", *ENDLESS[:-1], "--name", "mine", "--debug"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("iteration 2,"):
            break
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert out.splitlines()[-1] == "continue with: hotloop train --resume mine"


def test_weights_can_come_from_another_run() -> None:
    *_, first = hotloop_json("train", "cartpole")
    *_, second = hotloop_json("train", "cartpole", "--init-from", first["run"], "--steps", "2048", "train.until=null")
    assert second["evaluation"]["mean"] > 400


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "nothing to train"),
        (["ppo.epochs=4"], "nothing to train"),
        (["cartpol"], "Did you mean 'cartpole'?"),
        (["cartpole", "ppo.epoch=4"], "there is no config key 'ppo.epoch'. Did you mean 'ppo.epochs'?"),
        (["cartpole", "ppo.epochs"], "expected key=value"),
        (["cartpole", "ppo.epochs=many"], "ppo.epochs is 'many': expected"),
        (["cartpole", "env.gravty=1"], "Did you mean 'env.gravity'?"),
        (["cartpole", "ppo.minibatch_size=1000000"], "set ppo.minibatch_size to at most"),
        (["cartpole", "--preset", "fats"], "Did you mean 'fast'?"),
        (["cartpole", "--config", "nowhere.yaml"], "cannot read the config nowhere.yaml"),
        (["cartpole", "--steps", "0"], "train.steps is 0: expected"),
        (["cartpole", "--seed", "-1"], "train.seed is -1: expected"),
        (["cartpole", "--name", "a/b"], "the name 'a/b' is invalid"),
        (["tag", "train.steps=null"], "no stopping condition"),
        (["--resume", "last"], "there is no run 'last'"),
        (["cartpole", "--init-from", "last"], "there is no run 'last'"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: list[str], what: str, home: Path) -> None:
    assert what in complaint("train", *arguments)
    assert not list(home.glob("runs/*"))


def test_what_a_stored_run_fixes_cannot_be_changed() -> None:
    hotloop_json("train", "cartpole", "--steps", "2048", "train.until=null")
    assert "seed cannot be given with resume" in complaint("train", "--resume", "last", "--seed", "3")
    assert "ppo.epochs cannot be given with resume" in complaint("train", "ppo.epochs=3", "--resume", "last")
    assert "trains 'cartpole', not 'taxi'" in complaint("train", "taxi", "--resume", "last")
