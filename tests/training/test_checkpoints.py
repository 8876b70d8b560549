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
from hotloop import _core, files
from hotloop.errors import CheckpointError, TrainingError
from hotloop.training import Callback, verify
from hotloop.training.callbacks import StartReport
from hotloop.training.checkpoint import best_steps, checkpoint_paths, open_checkpoint
from tests.cli.command import hotloop as command
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
        self.result: StartReport | None = None

    def start(self, report: StartReport) -> None:
        self.result = report


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
    manifest = open_checkpoint(path, trust=False).manifest
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


def flip_all(folder: Path) -> None:
    for path in checkpoint_paths(folder):
        flip(path / "policy.safetensors")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    path.rename(path.with_name("x"))
    path.symlink_to("x")


def reseal(path: Path, **changes: Any) -> None:
    """Change entries of a manifest so that its checksum fits again."""
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    path.write_bytes(files.seal({**manifest, **changes}))


DAMAGES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a bit of the policy": ("policy.safetensors", flip, "is damaged"),
    "a bit of the state": ("state.safetensors", flip, "is damaged"),
    "half of the state": ("state.safetensors", lambda path: os.truncate(path, path.stat().st_size // 2), "is damaged"),
    "no policy": ("policy.safetensors", lambda path: path.unlink(), "cannot read policy.safetensors"),
    "no manifest": ("manifest.json", lambda path: path.unlink(), "cannot read manifest.json"),
    "an empty manifest": ("manifest.json", lambda path: path.write_text(""), "is not valid JSON"),
    "another's manifest": ("manifest.json", lambda path: path.write_text("{}"), "no checkpoint of Hotloop"),
    "a digit of the manifest": (
        "manifest.json",
        lambda path: path.write_text(path.read_text().replace('"steps": 2', '"steps": 3')),
        "manifest.json does not match its checksum",
    ),
    "deep JSON": ("manifest.json", lambda path: path.write_text("[" * 100_000), "is not valid JSON"),
    "a pipe": ("manifest.json", pipe, "not a regular file"),
    "a link": (
        "policy.safetensors",
        link,
        "it is a symbolic link",
    ),
    "a huge shape": (
        "manifest.json",
        lambda path: reseal(path, observation={"kind": "box", "shape": [2**62], "low": 0.0, "high": 1.0}),
        "observation is",
    ),
    "a huge layer": (
        "manifest.json",
        lambda path: reseal(path, policy={**json.loads(path.read_text())["policy"], "hidden": [2**30]}),
        "weights or more, but policy.safetensors has",
    ),
    "a missing entry": ("manifest.json", lambda path: reseal(path, seed="seven"), "seed is 'seven', which is invalid"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_resume_takes_the_one_before(damage: str, tmp_path: Path) -> None:
    file, spoil, reason = DAMAGES[damage]
    run = trained(tmp_path)
    *_, before, last = checkpoint_paths(run / "checkpoints")
    whole = (last / "policy.safetensors").read_bytes()
    spoil(last / file)
    with pytest.raises(CheckpointError, match=reason):
        open_checkpoint(last, trust=False)
    notes = Notes()
    hotloop.train(resume=run, callbacks=[notes])
    assert notes.result is not None
    assert notes.result.resumed_at == int(before.name)
    assert len(notes.result.notes) == 1
    assert reason in notes.result.notes[0]
    # A damaged checkpoint is set aside, not deleted.
    assert (run / "checkpoints.old-1" / last.name).is_dir()
    assert (last / "policy.safetensors").read_bytes() == whole


UNUSABLE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another run's": (lambda last: reseal(last / "manifest.json", env="acrobot"), "its env is 'acrobot'"),
    "a later format": (lambda last: reseal(last / "manifest.json", format=3), "has format 3"),
    "fewer envs": (
        lambda last: edit_config(last.parent.parent, "num_envs: 8", "num_envs: 16"),
        "does not fit this run",
    ),
    "no whole one": (
        lambda last: flip_all(last.parent),
        "no checkpoint of the run is usable",
    ),
}


def edit_config(run: Path, before: str, after: str) -> None:
    path = run / "config.yaml"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", UNUSABLE)
def test_a_checkpoint_that_cannot_be_used_stops_the_resume_and_stays(change: str, tmp_path: Path) -> None:
    spoil, reason = UNUSABLE[change]
    run = trained(tmp_path)
    spoil(checkpoint_paths(run / "checkpoints")[-1])
    before = content(run / "checkpoints")
    with pytest.raises(CheckpointError, match=rf"{reason}.*--restart"):
        hotloop.train(resume=run)
    assert content(run / "checkpoints") == before


def test_a_restart_sets_the_old_checkpoints_aside(tmp_path: Path) -> None:
    run = trained(tmp_path)
    last = checkpoint_paths(run / "checkpoints")[-1]
    whole, lines = (last / "policy.safetensors").read_bytes(), len(recorded(run))
    for path in checkpoint_paths(run / "checkpoints"):
        flip(path / "policy.safetensors")
    before = content(run / "checkpoints")
    hotloop.train(resume=run, restart=True)
    assert content(run / "checkpoints.old-1") == before
    assert (last / "policy.safetensors").read_bytes() == whole
    assert len(recorded(run)) == lines
    with pytest.raises(TrainingError, match="restart needs a run to resume"):
        hotloop.train("cartpole", steps=128, restart=True)


def test_an_edited_config_is_reported(tmp_path: Path) -> None:
    run = trained(tmp_path)
    edit_config(run, "learning_rate: 0.001", "learning_rate: 0.002")
    notes = Notes()
    hotloop.train(resume=run, steps=STEPS + 128, callbacks=[notes])
    assert notes.result is not None
    assert "config.yaml was edited since the run began: ppo.learning_rate was 0.001, is 0.002" in notes.result.notes
    # A limit that was changed does not cost the checksums.
    status = json.loads((run / "run.json").read_text())
    assert files.is_sealed(status)
    assert status["files"]["config.yaml"] == files.checksum((run / "config.yaml").read_bytes())
    edit_config(run, "seed: 0", "seed: 7")
    with pytest.raises(CheckpointError, match=r"config\.yaml was edited .*train\.seed was 0, is 7; .*another run"):
        hotloop.train(resume=run)


def test_a_damaged_status_is_reported(tmp_path: Path) -> None:
    run = trained(tmp_path)
    flip(run / "run.json")
    notes = Notes()
    hotloop.train(resume=run, steps=STEPS + 128, callbacks=[notes])
    assert notes.result is not None
    assert any(note.startswith("run.json is missing or does not match its checksum") for note in notes.result.notes)


def test_damaged_initial_weights_are_refused(tmp_path: Path) -> None:
    source = trained(tmp_path, "source")
    run = hotloop.train("cartpole", steps=STEPS, config=SMALL, init_from=source, home=tmp_path, name="second").path
    flip(run / "first.safetensors")
    with pytest.raises(CheckpointError, match=r"first\.safetensors, its initial weights, does not match its checksum"):
        hotloop.train(resume=run)
    with pytest.raises(CheckpointError, match=r"first\.safetensors"):
        verify(run)


def test_a_damaged_best_checkpoint_is_named_and_another_one_used(tmp_path: Path) -> None:
    run = trained(tmp_path, train__evaluate_episodes=20, train__evaluate_every=5)
    best = best_steps(run / "checkpoints")
    flip(run / "checkpoints" / str(best) / "policy.safetensors")
    with pytest.warns(UserWarning, match=rf"checkpoints/{best} is damaged.*is used instead"):
        hotloop.load(run)
    done = command("eval", str(run), "--episodes", "2", "--no-keep")
    assert done.returncode == 0
    assert f"checkpoints/{best} is damaged" in done.stderr


def unseal(path: Path) -> None:
    """Change the evaluation, so that another checkpoint would seem to be the best."""
    path.write_text(path.read_text().replace('"best": true', '"best": false'))


def to_link(path: Path) -> None:
    folder = path.parent
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("moved")


@pytest.mark.parametrize(
    "spoil",
    [lambda path: path.write_bytes(path.read_bytes() + b"}"), unseal, lambda path: path.unlink(), to_link],
    ids=["appended", "unsealed", "removed", "link"],
)
def test_a_manifest_that_may_be_the_bests_is_never_passed_over_in_silence(
    spoil: Callable[[Path], Any], tmp_path: Path
) -> None:
    run = trained(tmp_path, train__evaluate_episodes=20, train__evaluate_every=5)
    best = best_steps(run / "checkpoints")
    spoil(run / "checkpoints" / str(best) / "manifest.json")
    with pytest.warns(UserWarning, match=rf"checkpoints/{best} is .*is used instead"):
        policy = hotloop.load(run)
    assert policy.steps != best
    done = command("eval", str(run), "--episodes", "2", "--no-keep")
    assert done.returncode == 0
    assert f"checkpoints/{best} is" in done.stderr
    # It may still be repaired: nothing removes it.
    hotloop.train(resume=run, steps=2 * STEPS)
    left = [*(run / "checkpoints").iterdir(), *run.glob("checkpoints.old-*/*")]
    assert str(best) in [path.name for path in left]


def test_a_link_in_place_of_a_runs_folders_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path)
    for name in ("checkpoints", "replays", "policies", "live"):
        folder = run / name
        folder.mkdir(exist_ok=True)
        folder.rename(tmp_path / name)
        folder.symlink_to(tmp_path / name)
        before = sorted((tmp_path / name).iterdir())
        with pytest.raises(CheckpointError, match=f"{name} is a symbolic link; put the real folder there"):
            hotloop.train(resume=run)
        assert sorted((tmp_path / name).iterdir()) == before
        if name == "checkpoints":
            with pytest.raises(CheckpointError, match="checkpoints is a symbolic link"):
                hotloop.load(run)
        folder.unlink()
        (tmp_path / name).rename(folder)
    hotloop.train(resume=run)


def test_a_replay_too_many_is_removed_when_a_run_is_resumed(tmp_path: Path) -> None:
    run = trained(tmp_path, train__evaluate_episodes=20, train__evaluate_every=5)
    replays = sorted((run / "replays").iterdir())
    (run / "replays" / "9999-0.replay").write_bytes(replays[-1].read_bytes())
    hotloop.train(resume=run)
    assert len(list((run / "replays").iterdir())) == len(replays) == 3


def test_a_damaged_replay_is_set_aside_when_a_run_is_resumed(tmp_path: Path) -> None:
    run = trained(tmp_path, train__evaluate_episodes=20, train__evaluate_every=5)
    one, two, *_ = sorted((run / "replays").glob("*.replay"))
    one.write_bytes(one.read_bytes()[:-10])
    two.unlink()
    two.mkdir()
    notes = Notes()
    hotloop.train(resume=run, steps=2 * STEPS, callbacks=[notes])
    assert notes.result is not None
    for path in (one, two):
        assert any(path.name in note and "it is now in replays.old-1" in note for note in notes.result.notes)
        assert (run / "replays.old-1" / path.name).exists()


def test_the_best_checkpoint_is_known_without_another_file(tmp_path: Path) -> None:
    run = trained(tmp_path, train__evaluate_episodes=20, train__evaluate_every=5)
    means = {
        path.name: manifest["evaluation"]["mean"]
        for path in checkpoint_paths(run / "checkpoints")
        if (manifest := json.loads((path / "manifest.json").read_text()))["evaluation"] is not None
    }
    assert str(best_steps(run / "checkpoints")) == max(means, key=lambda steps: (means[steps], -int(steps)))
    assert sorted(path.name for path in (run / "checkpoints").iterdir() if not path.is_dir()) == []


def test_links_among_checkpoints_are_left_alone(tmp_path: Path) -> None:
    run = trained(tmp_path)
    (run / "checkpoints" / "999999").symlink_to(checkpoint_paths(run / "checkpoints")[0].name)
    hotloop.train(resume=run, steps=STEPS + 8 * 16 * 20)
    assert (run / "checkpoints" / "999999").is_symlink()
    assert any("999999 is no checkpoint" in each for each in verify(run).differences)


def test_a_failed_creation_leaves_the_name_free(tmp_path: Path) -> None:
    (tmp_path / "runs" / "run").mkdir(parents=True)
    code = (
        "import resource, signal, sys, hotloop; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: hotloop.train('cartpole', steps=128, name='new', home=sys.argv[1])\n"
        "except hotloop.training.TrainingError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert "cannot make the folder" in done.stdout, done.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run"]
    # A folder that is there, but empty, does not block its name either.
    assert trained(tmp_path, "run").is_dir()
    with pytest.raises(TrainingError, match="there is a run 'run' already"):
        trained(tmp_path, "run")
    with pytest.raises(TrainingError, match="at most 200 bytes"):
        trained(tmp_path, "x" * 5000)
    with pytest.raises(TrainingError, match="there is no run"):
        hotloop.train(resume="x" * 5000)


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
from hotloop import files
from hotloop.training import Callback, TrainingError, verify

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
