"""A lost terminal, a closed pipe or a full disk behind standard output never ends a run and never shows a traceback."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = f"{sys.executable} -m hotloop"
TRAIN = f"{COMMAND} train cartpole --steps 60000 train.until=null --name it"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path))
    return tmp_path


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, errors="replace")


def status(home: Path) -> str:
    found: str = json.loads((home / "runs/it/run.json").read_text())["status"]
    return found


@pytest.mark.parametrize("more", ["", " --json"])
@pytest.mark.parametrize("where", ["| head -1 > /dev/null", "> /dev/full", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_run_goes_on_without_its_output(where: str, more: str, home: Path) -> None:
    done = shell(TRAIN + more + " " + where)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert status(home) == "finished"
    assert list((home / "runs/it/checkpoints").glob("*/policy.safetensors"))


def test_a_full_disk_behind_standard_output_is_reported(home: Path) -> None:
    done = shell(TRAIN + " > /dev/full")
    assert done.stderr.count("cannot write to standard output (No space left on device); the run goes on.") == 1


@pytest.mark.parametrize("command", ["envs", "--help", "runs list --json"])
def test_other_commands_end_quietly_when_their_reader_leaves(command: str, home: Path) -> None:
    # The reader is gone before the first byte.
    done = shell(f"{COMMAND} {command} | exec true")
    assert done.returncode in (0, 141)
    assert done.stderr == ""


def test_other_commands_say_that_their_result_was_lost() -> None:
    done = shell(f"{COMMAND} envs > /dev/full")
    assert done.returncode == 2
    assert done.stderr == "hotloop: cannot write to standard output: No space left on device\n"


def test_a_closed_terminal_ends_a_run_with_a_checkpoint(home: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND.split(), "train", "cartpole", "train.until=null", "--steps", "1e12", "--name", "it"],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while b"steps/s" not in shown:
        shown += os.read(ours, 4096)
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert process.wait() == 130
    assert status(home) == "interrupted"
    assert list((home / "runs/it/checkpoints").glob("*/policy.safetensors"))


def test_nohup_keeps_a_run_alive(home: Path) -> None:
    process = subprocess.Popen(
        ["nohup", *TRAIN.split(), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    process.communicate()
    assert process.returncode == 0
    assert status(home) == "finished"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", ["play it --steps 3", "runs plot it", "runs list", "train --resume it"])
def test_terminals_that_cannot_show_a_character_get_another(command: str, encoding: str, home: Path) -> None:
    assert shell(TRAIN).returncode == 0
    done = shell(f"PYTHONIOENCODING={encoding} {COMMAND} {command}")
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr


def test_an_interrupt_while_modules_are_imported_is_silent() -> None:
    for delay in range(0, 300, 30):
        process = subprocess.Popen(
            [*COMMAND.split(), "eval", "nothing"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        # Any moment will do; several are tried.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.03 + delay / 1000)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        # Before our first line Python itself answers.
        assert "hotloop/cli" not in err
        assert process.returncode in (-signal.SIGINT, 130, 2) or "runpy" in err
