"""Whole runs with the torch learner: killed and resumed, handed to the other learner, repeated, trusted, learned."""

import json
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.errors import TrainingError
from hotloop.files import seal
from hotloop.training import verify
from tests import warm_process
from tests.training.processes import checksum, kill, wait_until_training

SMALL: dict[str, Any] = {
    "train.learner": "torch",
    "torch.num_threads": 1,
    "runner.num_envs": 16,
    "runner.num_threads": 1,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "ppo.epochs": 2,
    "train.until": None,
    "train.evaluate_episodes": 4,
    "train.checkpoint_every": 4,
    "track.interval": 2,
}
KINDS: dict[str, dict[str, Any]] = {
    "dense": {"policy.hidden": [16], "ppo.normalize_observations": True, "ppo.normalize_rewards": True},
    "memory": {"policy.hidden": [16], "policy.memory": "lstm", "policy.memory_size": 8, "ppo.sequence_length": 8},
}
STEPS = 16 * 16 * 40


def said(kind: str) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in {**SMALL, **KINDS[kind]}.items()]


def start(home: Path, *arguments: str) -> BaseProcess:
    return warm_process.start(warm_process.command, "train", *arguments, "--json", HOTLOOP_HOME=str(home))


def run(home: Path, *arguments: str) -> int:
    return warm_process.finish(start(home, *arguments))


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_ends_with_identical_weights(kind: str, tmp_path: Path) -> None:
    fresh = ["cartpole", *said(kind), "--steps", str(STEPS), "--name", "run"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(whole, *fresh) == 0
    folder = broken / "runs" / "run"
    for attempt in range(2):
        process = start(broken, *(fresh if attempt == 0 else ["--resume", "run"]))
        wait_until_training(process, folder)
        time.sleep(0.15 * attempt)
        assert kill(process)
    assert run(broken, "--resume", "run") == 0
    assert checksum(folder) == checksum(whole / "runs" / "run")


@pytest.mark.parametrize(("first", "second"), [("torch", "native"), ("native", "torch")])
def test_a_run_goes_on_with_the_other_learner_and_says_that_bits_differ(
    first: str, second: str, tmp_path: Path
) -> None:
    notes: list[str] = []

    class Listener(hotloop.training.Callback):
        def start(self, report: Any) -> None:
            notes.extend(report.notes)

    config = {**SMALL, **KINDS["dense"], "train.learner": first}
    begun = hotloop.train("cartpole", steps=STEPS // 4, config=config, home=tmp_path, name="run")
    went_on = hotloop.train(
        resume="run", steps=STEPS // 2, config={"train.learner": second}, home=tmp_path, callbacks=[Listener()]
    )
    assert went_on.steps > begun.steps
    assert any(f"made by the {first} learner" in note and "bits will differ" in note for note in notes)
    manifest = json.loads(
        (max((went_on.path / "checkpoints").glob("[0-9]*"), key=lambda p: int(p.name)) / "manifest.json").read_text()
    )
    assert manifest["learners"] == [first, second]
    assert any("changed learners" in note for note in verify(went_on.path).notes)


def test_a_run_can_be_repeated_and_records_its_conditions(tmp_path: Path) -> None:
    run = hotloop.train("cartpole", steps=STEPS // 4, config={**SMALL, **KINDS["memory"]}, home=tmp_path)
    assert verify(run.path).same
    manifest_path = max((run.path / "checkpoints").glob("[0-9]*"), key=lambda p: int(p.name)) / "manifest.json"
    manifest = json.loads(manifest_path.read_text())
    assert manifest["torch"].keys() == {"version", "device", "cpu", "threads", "dtype", "compile"}
    manifest["torch"]["version"] = "1.0"
    manifest_path.write_bytes(seal({key: value for key, value in manifest.items() if key != "sha256"}))
    assert any("version was 1.0" in note for note in verify(run.path).notes)


def test_code_of_a_run_made_elsewhere_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path / "mine"))
    config = {**SMALL, "policy.module": "tests.ppo.torch.policies:Counting"}
    run = hotloop.train("cartpole", steps=256, config=config, name="run")
    obs = np.zeros(4, np.float32)
    assert hotloop.load(run.path).act(obs) in (0, 1)
    elsewhere = tmp_path / "theirs"
    run.path.rename(elsewhere)
    for use in (lambda: hotloop.load(elsewhere), lambda: verify(elsewhere), lambda: hotloop.train(resume=elsewhere)):
        with pytest.raises(TrainingError, match=r"was not made here.*--trust"):
            use()
    assert hotloop.load(elsewhere, trust=True).act(obs) in (0, 1)


def test_a_checkpoint_with_foreign_arrays_is_refused(tmp_path: Path) -> None:
    theirs = hotloop.train("cartpole", steps=256, config={**SMALL, "policy.hidden": [8]}, home=tmp_path)
    with pytest.raises(TrainingError, match=r"another policy.*trunk\.0\.weight"):
        hotloop.train(
            "cartpole", steps=256, config={**SMALL, "policy.hidden": [9]}, home=tmp_path, init_from=theirs.path
        )
