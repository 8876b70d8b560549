"""Runs from elsewhere: nothing that they name is executed by any command, unless they are trusted."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hotloop
from hotloop import files
from hotloop.errors import TrainingError
from hotloop.training import verify
from hotloop.training.checkpoint import checkpoint_paths, open_checkpoint
from hotloop.training.time_machine import policy_at
from tests.cli.command import complaint
from tests.cli.command import hotloop as run_hotloop

SMALL = {"runner.num_envs": 2, "runner.num_workers": 1, "ppo.horizon": 8, "ppo.minibatch_size": 16}
SETTINGS: dict[str, tuple[str, str]] = {
    "an interpreter": ("worker_python: null", "worker_python: {marker}"),
    "a module": ("module: null", "module: evil:Net"),
    "a loss": ("losses: []", "losses: [evil:loss]"),
    "a factory": ("name: gymnasium:CartPole-v1", "name: evil:make"),
    "a module of Gymnasium's": ("name: gymnasium:CartPole-v1", "name: gymnasium:evil:Env-v0"),
    "a library": ("name: gymnasium:CartPole-v1", "name: native:{marker}"),
    "an option": ("name: gymnasium:CartPole-v1", "name: gymnasium:GymV21Environment-v0"),
    "a service": ("trackers: []", "trackers: [wandb]"),
}
COMMANDS: dict[str, Callable[[Path], Any]] = {
    "resume": lambda run: hotloop.train(resume=run, steps=10**6),
    "verify": verify,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on Python envs, far from the home of whoever gets it."""
    config = {**SMALL, "train.evaluate_episodes": 0, "policy.hidden": [4]}
    return hotloop.train(
        "gymnasium:CartPole-v1", steps=32, config=config, home=tmp_path_factory.mktemp("theirs"), store="none"
    ).path


@pytest.fixture
def theirs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its copy, next to code that leaves a mark when it is executed."""
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path / "mine"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    program = tmp_path / "python3"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'executed'}\n")
    program.chmod(0o755)
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_command_executes_what_the_config_of_a_foreign_run_names(
    setting: str, command: str, theirs: Path, tmp_path: Path
) -> None:
    before, after = SETTINGS[setting]
    config = theirs / "config.yaml"
    assert before in config.read_text()
    config.write_text(config.read_text().replace(before, after.format(marker=tmp_path / "python3"), 1))
    with pytest.raises(TrainingError, match=r"names code to be loaded .* and was not made here: .*--trust"):
        COMMANDS[command](theirs)
    assert not (tmp_path / "executed").exists()


def test_eval_does_not_start_the_interpreter_of_a_foreign_run(theirs: Path, tmp_path: Path) -> None:
    config = theirs / "config.yaml"
    config.write_text(config.read_text().replace("worker_python: null", f"worker_python: {tmp_path / 'python3'}"))
    assert "names code to be loaded" in complaint("eval", str(theirs), "--episodes", "1")
    assert not (tmp_path / "executed").exists()


def test_no_policy_of_a_foreign_manifest_is_imported(theirs: Path, tmp_path: Path) -> None:
    path = checkpoint_paths(theirs / "checkpoints")[-1]
    manifest = open_checkpoint(path, trust=False).manifest
    del manifest["sha256"]
    # With layers, too: an exporter must not take it for a policy without code.
    manifest["policy"] = {**manifest["policy"], "module": "evil:Net", "module_options": {}}
    (path / "manifest.json").write_bytes(files.seal(manifest))
    with pytest.raises(TrainingError, match="names code to be loaded"):
        hotloop.load(theirs)
    with pytest.raises(TrainingError, match="names code to be loaded"):
        hotloop.train("cartpole", steps=64, init_from=theirs)
    for command in (("export", str(theirs), "--onnx", "x.onnx"), ("play", str(theirs)), ("eval", str(path))):
        assert "names code to be loaded" in complaint(*command)
    assert not (tmp_path / "executed").exists()


def rebuild(run: Path) -> None:
    """Ask for the policy of the first record, which is on no ladder and must be trained again."""
    with policy_at(run, 48, trust=False, exact=True):
        pass


def test_no_opponent_of_a_foreign_run_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {**SMALL, "env.seats": 3, "train.evaluate_episodes": 0, "policy.hidden": [4], "track.interval": 3}
    home = tmp_path / "home"
    hotloop.train("tag", steps=32, config=config, name="other", home=home, store="none")
    against = {**config, "opponents.policies": ["other"], "opponents.seats": [1]}
    run = hotloop.train("tag", steps=160, config=against, name="run", home=home, store="none").path
    rebuild(run)
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path / "mine"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    path = run / "opponents" / "1" / "manifest.json"
    manifest = files.read_object(path)
    manifest["policy"] = {**manifest["policy"], "module": "evil:Net", "module_options": {}}
    path.write_bytes(files.seal(manifest))
    for use in (*COMMANDS.values(), rebuild):
        with pytest.raises(TrainingError, match="names code to be loaded"):
            use(run)
    assert "names code to be loaded" in complaint("eval", str(run), "--episodes", "1")
    assert not (tmp_path / "executed").exists()


# Ends the run at the moment between its folder's making and its first checkpoint, once.
ENDING_ENV = """
import os, pathlib, signal
import gymnasium

def make():
    home = pathlib.Path(os.environ["HOTLOOP_HOME"])
    if any(home.glob("runs/*")) and not (home / "ended").exists():
        (home / "ended").touch()
        if "KILLED" in os.environ:
            os.kill(os.getppid(), signal.SIGKILL)
        raise ValueError("no env today")
    return gymnasium.make("CartPole-v1")
"""


@pytest.fixture
def ending(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "ending.py").write_text(ENDING_ENV)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": paths, "HOTLOOP_HOME": str(tmp_path / "home")}


BEGIN = ("train", "ending:make", "--name", "run", "--steps", "64", *(f"{key}={value}" for key, value in SMALL.items()))


def test_a_run_that_was_killed_while_its_envs_were_made_is_resumed_without_trust(ending: dict[str, str]) -> None:
    assert run_hotloop(*BEGIN, **ending, KILLED="yes").returncode == -signal.SIGKILL
    resumed = run_hotloop("train", "--resume", "run", **ending)
    assert resumed.returncode == 0, resumed.stderr


def test_a_run_that_cannot_begin_leaves_no_mark(ending: dict[str, str]) -> None:
    begun = run_hotloop(*BEGIN, **ending)
    assert begun.returncode == 2
    assert "no env today" in begun.stderr
    home = Path(ending["HOTLOOP_HOME"])
    assert not list(home.glob("runs/*"))
    assert not list(home.glob("trusted/*"))
