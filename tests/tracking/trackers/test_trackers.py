"""TensorBoard, Weights & Biases and MLflow: a real run recorded by each real package, and read back."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hotloop
from hotloop.errors import StoreError, TrainingError
from hotloop.tracking import journal
from hotloop.tracking.trackers import factory

QUICK: dict[str, Any] = {
    "runner.num_envs": 8,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "track.interval": 8,
    "train.until": None,
    "train.evaluate_episodes": 4,
    "train.checkpoint_every": 16,
}


def records(path: Path) -> dict[int, float]:
    reports = journal.read_all(path / journal.NAME)
    return {event["steps"]: event["value_loss"] for event in reports if event["event"] == "iteration"}


def output(code: str) -> list[str]:
    """Return the output of a separate process: other packages emit warnings of their own on import."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_tensorboard_has_the_curves_and_forgets_what_a_resumed_run_makes_again(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = {**QUICK, "track.trackers": ["tensorboard"]}
    run = hotloop.train("cartpole", steps=4096, config=config, home=tmp_path)

    def read() -> dict[int, float]:
        accumulated = EventAccumulator(str(run.path / "tensorboard"))
        accumulated.Reload()
        tags = accumulated.Tags()["scalars"]
        assert {"eval/mean", "rollout/return_mean", "time/env", "train/entropy"} <= set(tags)
        assert {tag.split("/")[0] for tag in tags} <= {"eval", "resources", "rollout", "time", "train"}
        return {point.step: point.value for point in accumulated.Scalars("train/value_loss")}

    assert read() == pytest.approx(records(run.path))
    shutil.rmtree(run.path / "checkpoints" / "4096")
    hotloop.train(resume=run.path)
    assert read() == pytest.approx(records(run.path))


@pytest.mark.parametrize("where", ["by default", "in files"])
def test_mlflow_has_settings_and_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    pytest.importorskip("mlflow")
    code = f"""
import json, hotloop
run = hotloop.train("cartpole", steps=4096, config={ {**QUICK, "track.trackers": ["mlflow"]}!r}, home={str(tmp_path)!r})
print(run.path)
from mlflow.tracking import MlflowClient
client = MlflowClient()
experiment = client.get_experiment_by_name("hotloop")
(found,) = client.search_runs([experiment.experiment_id])
print(found.info.status, found.data.params["ppo.horizon"])
print(json.dumps({{point.step: point.value for point in client.get_metric_history(found.info.run_id, "value_loss")}}))
"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if where == "in files":
        monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    path, status, points = output(code)[-3:]
    assert status == "FINISHED 16"
    assert {int(step): value for step, value in json.loads(points).items()} == pytest.approx(records(Path(path)))


def test_a_tracker_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("where its folder should be")
    with pytest.raises(StoreError, match=r"^tensorboard cannot be used: "):
        factory("tensorboard", tmp_path)()


def test_weights_and_biases_keeps_a_run_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    code = f"""
import hotloop
class Troubles(hotloop.training.Callback):
    def trouble(self, report): print("trouble", report.what)
config = { {**QUICK, "track.trackers": ["wandb"]}!r}
run = hotloop.train("cartpole", steps=4096, config=config, home={str(tmp_path)!r}, callbacks=[Troubles()])
print(run.path)
""".replace("import hotloop\n", "import hotloop, hotloop.training\n")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    reports = output(code)
    assert not [line for line in reports if line.startswith("trouble")]
    (kept,) = Path(reports[-1]).glob("wandb/offline-run-*/run-*.wandb")
    content = kept.read_bytes()
    assert b"value_loss" in content
    assert b"evaluation.mean" in content


def test_a_tracker_that_is_not_installed_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hotloop.tracking import trackers

    monkeypatch.setitem(trackers.PACKAGES, "wandb", "no_such_package_at_all")
    with pytest.raises(TrainingError, match=re.escape("pip install 'hotloop[wandb]'")):
        hotloop.train("cartpole", steps=1024, config={**QUICK, "track.trackers": ["wandb"]}, home=tmp_path)
    assert not (tmp_path / "runs").exists()
