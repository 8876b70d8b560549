"""Checkpoints: refused when anything is wrong with them, and never in the way of a resume."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import hotloop
from hotloop import _core
from hotloop.errors import CheckpointError, TrainingError
from hotloop.training import Callback
from hotloop.training.callbacks import StartReport
from hotloop.training.checkpoint import best_steps, checkpoint_paths, open_checkpoint
from tests.training.processes import recorded

SMALL: dict[str, Any] = {
    "runner.num_envs": 8,
    "ppo.horizon": 16,
    "ppo.epochs": 4,
    "ppo.gamma": 0.99,
    "ppo.learning_rate": 1e-3,
    "ppo.minibatch_size": 64,
    "policy.hidden": [16],
    "train.checkpoint_every": 5,
    "train.keep_last": 3,
    "train.evaluate_episodes": 0,
    "train.until": None,
    "track.interval": 4,
}
STEPS = 8 * 16 * 20


def trained(home: Path, name: str = "run", **changes: Any) -> Path:
    config = {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}}
    return hotloop.train("cartpole", steps=STEPS, config=config, name=name, home=home).path


class Notes(Callback):
    def __init__(self) -> None:
        self.told: StartReport | None = None

    def start(self, report: StartReport) -> None:
        self.told = report


def test_the_last_few_and_the_best_are_kept(tmp_path: Path) -> None:
    run = trained(tmp_path, train__evaluate_episodes=20, train__evaluate_every=5)
    folder = run / "checkpoints"
    kept = [int(path.name) for path in checkpoint_paths(folder)]
    best = best_steps(folder)
    assert kept[-3:] == [8 * 16 * n for n in (10, 15, 20)]
    assert best in kept
    assert set(kept[:-3]) <= {best}
    assert not list(folder.glob(".*"))


def test_equal_runs_write_equal_policies(tmp_path: Path) -> None:
    one, two = trained(tmp_path / "one"), trained(tmp_path / "two")
    for path in checkpoint_paths(one / "checkpoints"):
        other = two / "checkpoints" / path.name
        assert (path / "policy.safetensors").read_bytes() == (other / "policy.safetensors").read_bytes()


def test_the_manifest_says_what_made_it(tmp_path: Path) -> None:
    path = checkpoint_paths(trained(tmp_path) / "checkpoints")[-1]
    manifest = open_checkpoint(path).manifest
    assert manifest["env"] == "cartpole"
    assert manifest["steps"] == STEPS
    assert manifest["isa"] == _core.isa()
    assert manifest["versions"]["hotloop"] == hotloop.__version__
    assert manifest["files"].keys() == {"policy.safetensors", "state.safetensors"}
    assert set(load_file(path / "policy.safetensors")) == set(
        _core.PpoLearner("cartpole", None, manifest["policy"], rows=1, horizon=1, seed=0).arrays()
    )


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def foreign(path: Path) -> None:
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "env": "acrobot"}))


DAMAGES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a bit of the policy": ("policy.safetensors", flip, "is damaged"),
    "a bit of the state": ("state.safetensors", flip, "is damaged"),
    "half of the state": ("state.safetensors", lambda path: os.truncate(path, path.stat().st_size // 2), "is damaged"),
    "no policy": ("policy.safetensors", lambda path: path.unlink(), "cannot read policy.safetensors"),
    "no manifest": ("manifest.json", lambda path: path.unlink(), "cannot read manifest.json"),
    "an empty manifest": ("manifest.json", lambda path: path.write_text(""), "no JSON"),
    "another's manifest": ("manifest.json", lambda path: path.write_text("{}"), "no checkpoint of Hotloop"),
    "a later format": (
        "manifest.json",
        lambda path: path.write_text(path.read_text().replace('"format": 1', '"format": 2')),
        "format 2",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_resume_takes_the_one_before(damage: str, tmp_path: Path) -> None:
    file, spoil, reason = DAMAGES[damage]
    run = trained(tmp_path)
    *_, before, last = checkpoint_paths(run / "checkpoints")
    whole = (last / "policy.safetensors").read_bytes()
    spoil(last / file)
    with pytest.raises(CheckpointError, match=reason):
        open_checkpoint(last)
    notes = Notes()
    hotloop.train(resume=run, callbacks=[notes])
    assert notes.told is not None
    assert notes.told.resumed_at == int(before.name)
    assert len(notes.told.notes) == 1
    assert reason in notes.told.notes[0]
    assert (last / "policy.safetensors").read_bytes() == whole


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path)
    *_, before, last = checkpoint_paths(run / "checkpoints")
    foreign(last / "manifest.json")
    notes = Notes()
    hotloop.train(resume=run, callbacks=[notes])
    assert notes.told is not None
    assert notes.told.resumed_at == int(before.name)
    assert "belongs to another run: its env is 'acrobot', not 'cartpole'" in notes.told.notes[0]


def test_a_run_without_a_good_checkpoint_begins_again(tmp_path: Path) -> None:
    run = trained(tmp_path)
    last = checkpoint_paths(run / "checkpoints")[-1]
    whole, lines = (last / "policy.safetensors").read_bytes(), len(recorded(run))
    for path in checkpoint_paths(run / "checkpoints"):
        flip(path / "policy.safetensors")
    hotloop.train(resume=run)
    assert (last / "policy.safetensors").read_bytes() == whole
    assert len(recorded(run)) == lines


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    run = trained(tmp_path)
    (run / "checkpoints" / ".9999.123").mkdir()
    hotloop.train(resume=run)
    assert not (run / "checkpoints" / ".9999.123").exists()


def test_a_run_in_use_cannot_be_resumed(tmp_path: Path) -> None:
    run = trained(tmp_path)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib; from hotloop.training.runs import RunFolder\n"
            "folder = RunFolder(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()",
            str(run),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(TrainingError, match="another process trains it"):
        hotloop.train(resume=run)
    holder.communicate("")
    hotloop.train(resume=run)


FULL_DISK = """
import resource, sys, signal
import hotloop
from hotloop.training import Callback, TrainingError

class Fill(Callback):
    # No file may grow beyond this from here on: what a full disk does, without one.
    def checkpoint(self, report):
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, resource.RLIM_INFINITY))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    hotloop.train("cartpole", steps=%d, config=%r, name="run", home=sys.argv[1], callbacks=[Fill()])
except TrainingError as error:
    print(error)
""" % (STEPS, SMALL)  # noqa: UP031


def test_a_full_disk_ends_in_a_message_and_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "full")], capture_output=True, text=True, check=True
    )
    assert "cannot write to" in done.stdout, done.stderr
    assert f"resumed from its checkpoint at step {8 * 16 * 5}: hotloop train --resume run" in done.stdout
    run = tmp_path / "full" / "runs" / "run"
    assert [path.name for path in (run / "checkpoints").iterdir()] == [str(8 * 16 * 5)]
    hotloop.train(resume=run)
    last = checkpoint_paths(run / "checkpoints")[-1].name
    one, two = (folder / "checkpoints" / last / "policy.safetensors" for folder in (run, whole))
    assert one.read_bytes() == two.read_bytes()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(TrainingError, match="cannot make the folder"):
        trained(tmp_path)


def test_weights_to_begin_with_come_from_another_run(tmp_path: Path) -> None:
    source = trained(tmp_path, "source")
    arrays = load_file(checkpoint_paths(source / "checkpoints")[-1] / "policy.safetensors")
    config = {**SMALL, "ppo.learning_rate": 1e-12, "train.seed": 5}
    run = hotloop.train("cartpole", steps=128, config=config, init_from=source, home=tmp_path)
    learned = load_file(checkpoint_paths(run.path / "checkpoints")[-1] / "policy.safetensors")
    for name, array in arrays.items():
        np.testing.assert_allclose(learned[name], array, atol=1e-7)
    with pytest.raises(CheckpointError, match="another policy"):
        hotloop.train("cartpole", steps=128, config={**SMALL, "policy.hidden": [9]}, init_from=source, home=tmp_path)
    with pytest.raises(CheckpointError, match=r"set ppo\.normalize_observations=false"):
        hotloop.train(
            "cartpole",
            steps=128,
            config={**SMALL, "ppo.normalize_observations": True},
            init_from=source,
            home=tmp_path,
        )
    assert len(list((tmp_path / "runs").iterdir())) == 2
