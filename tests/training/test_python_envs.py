"""Training on Python envs: checkpoints, resume, evaluation, and faults that the run survives."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from gymnasium import spaces

import hotloop
from hotloop.errors import TrainingError
from hotloop.runners.health import WorkerHealth, format_health
from hotloop.tracking.sync_thread import SyncThread
from hotloop.training.callbacks import Callback, EvaluationProgress, ProgressReport, StartReport, TroubleReport
from hotloop.training.recorder import _with_health
from tests.cli.command import complaint, hotloop_json
from tests.runners.python_envs import counter

SMALL = {
    "runner.num_envs": 8,
    "runner.num_workers": 2,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "policy.hidden": [16],
    "train.evaluate_episodes": 4,
    "track.interval": 2,
}
COUNTER = "tests.runners.python_envs:counter"


class Heard(Callback):
    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.troubles: list[TroubleReport] = []
        self.workers: tuple[WorkerHealth, ...] = ()
        self.notes: tuple[str, ...] = ()

    def start(self, report: StartReport) -> None:
        self.notes = report.notes

    def progress(self, report: ProgressReport) -> None:
        self.workers = report.workers

    def trouble(self, report: TroubleReport) -> None:
        self.troubles.append(report)
        if len(self.troubles) == self.most:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_resumed_run_ends_with_the_same_weights_where_envs_offer_their_state(tmp_path: Path) -> None:
    keywords: dict[str, Any] = {"config": SMALL, "home": tmp_path, "seed": 3}
    whole = hotloop.train(COUNTER, steps=1024, name="whole", **keywords)
    hotloop.train(COUNTER, steps=512, name="parts", **keywords)
    parts = hotloop.train(resume="parts", steps=1024, home=tmp_path)
    files = [run.path / "checkpoints" / str(run.steps) / "policy.safetensors" for run in (whole, parts)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert whole.evaluation == parts.evaluation


def test_cartpole_of_gymnasium_is_learned_resumed_and_evaluated(tmp_path: Path) -> None:
    config = {**SMALL, "runner.num_envs": 16, "ppo.horizon": 64, "policy.hidden": [32]}
    run = hotloop.train("gymnasium:CartPole-v1", steps=8192, config=config, home=tmp_path, name="cart")
    heard = Heard()
    run = hotloop.train(resume="cart", steps=24576, home=tmp_path, callbacks=[heard])
    assert "16 of 16 envs do not offer their state" in heard.notes[0]
    assert run.return_mean > 35  # chance gives 22
    agent = hotloop.load(run.path)
    assert agent.act([0.0, 0.0, 0.1, 0.5]) in (0, 1)
    assert hotloop_json("eval", str(run.path), "--episodes", "6")[-1]["episodes"] == 6


def test_progress_is_shown_within_an_iteration_and_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow envs take minutes for either: nobody should have to wonder, and no alert should say that nothing happens."""
    beats: list[str] = []

    class Shown(Callback):
        def __init__(self) -> None:
            self.steps: list[int] = []
            self.episodes: list[int] = []

        def progress(self, report: ProgressReport) -> None:
            self.steps.append(report.steps)
            beats.append("training")

        def evaluating(self, report: EvaluationProgress) -> None:
            self.episodes.append(report.done)
            beats.append("evaluation")

    heard: list[str] = []
    monkeypatch.setattr("hotloop.training.reporter.PACE", 0.0)
    monkeypatch.setattr(SyncThread, "beat", lambda self: heard.append("beat"))
    shown = Shown()
    run = hotloop.train(COUNTER, steps=128, home=tmp_path, config=SMALL, callbacks=[shown])
    assert run.iterations == 1
    assert {16, 32, 64, 96, 128} <= set(shown.steps)
    assert shown.episodes[-1] == 4
    assert len(heard) == len(beats)


def test_what_a_module_has_is_trained_on_by_its_name(tmp_path: Path) -> None:
    run = hotloop.train(counter, steps=128, home=tmp_path, config=SMALL)
    assert f"name: {COUNTER}" in (run.path / "config.yaml").read_text()

    @hotloop.compiled(observation=spaces.Discrete(2), action=spaces.Discrete(2), max_steps=4, debug=True)
    class Flip:
        side: int

        def reset(self) -> None:
            self.side = 0

        def step(self, action: int) -> tuple[float, bool]:
            self.side = action
            return 1.0, action == 1

        def observe(self, obs: Any) -> None:
            obs[0] = self.side

    small: dict[str, object] = {
        "train.evaluate_episodes": 4,
        "ppo.horizon": 16,
        "runner.num_envs": 8,
        "ppo.minibatch_size": 64,
    }
    assert hotloop.train(Flip, steps=128, home=tmp_path, config=small).steps >= 128
    with pytest.raises(TypeError, match="env is 3: expected a name, an env, or a callable that returns one"):
        hotloop.train(3, home=tmp_path)  # type: ignore[arg-type]


def test_a_factory_named_by_a_run_made_elsewhere_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path / "mine"))
    run = hotloop.train(COUNTER, steps=256, config=SMALL, name="run")
    theirs = tmp_path / "theirs"
    run.path.rename(theirs)
    with pytest.raises(TrainingError, match=rf"names code to be loaded \({COUNTER}\).*--trust"):
        hotloop.train(resume=theirs, steps=512)
    assert "--trust" in complaint("eval", str(theirs), "--episodes", "2")
    assert hotloop_json("eval", str(theirs), "--episodes", "2", "--trust")[-1]["episodes"] == 2


def test_fifty_faults_of_every_kind_do_not_end_a_run(tmp_path: Path) -> None:
    config = {
        **SMALL,
        "env.chance": 0.1,
        "runner.num_envs": 4,
        "ppo.minibatch_size": 32,
        "runner.step_timeout": 0.3,
        "runner.restart_limit": None,
        "train.evaluate_episodes": 0,
    }
    heard = Heard(most=50)
    run = hotloop.train("tests.runners.python_envs:Bad", steps=10**6, config=config, home=tmp_path, callbacks=[heard])
    faults = [report.facts for report in heard.troubles if report.kind == "worker-restarted"]
    assert len(faults) >= 50
    assert run.ended == "interrupted"
    assert {fault["kind"] for fault in faults} == {"raise", "exit", "killed", "timeout"}
    assert [worker.worker for worker in heard.workers] == [0, 1]
    assert sum(worker.restarts for worker in heard.workers) > 0
    assert "restarts; worker" in format_health(heard.workers)
    stored = _with_health({"process": {"cpu": 1.0}, "worker 0": {"process": heard.workers[1].pid}}, heard.workers)
    assert stored["process"] == {"cpu": 1.0}
    assert stored["worker 1"]["process"] == heard.workers[1].pid
    assert stored["worker 1"]["restarts"] == heard.workers[1].restarts
    assert stored["worker 0"]["why"].partition(":")[0] in {"raise", "exit", "killed", "timeout"}
    kept = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert sum(line["event"] == "trouble" for line in kept) == len(faults)


def test_past_the_limit_a_run_keeps_a_checkpoint_and_ends_with_a_report(tmp_path: Path) -> None:
    config = {**SMALL, "env.chance": 0.05, "runner.restart_limit": 3, "runner.step_timeout": 0.5}
    with pytest.raises(TrainingError, match=r"more than runner.restart_limit 3(.|\n)*hotloop train --resume bad"):
        hotloop.train("tests.runners.python_envs:Bad", steps=100_000, config=config, home=tmp_path, name="bad")
    status = json.loads((tmp_path / "runs" / "bad" / "run.json").read_text())
    assert status["status"] == "failed"
    assert "restart_limit" in status["why"]
    assert list((tmp_path / "runs" / "bad" / "checkpoints").iterdir())


def test_a_minibatch_that_does_not_fit_and_an_env_that_cannot_be_made_leave_no_run(tmp_path: Path) -> None:
    from hotloop.config import ConfigError

    with pytest.raises(ConfigError, match="minibatch_size is 4096"):
        hotloop.train(COUNTER, steps=10, config={**SMALL, "ppo.minibatch_size": 4096}, home=tmp_path)
    with pytest.raises(ConfigError, match="there is no level file"):
        hotloop.train("tests.runners.python_envs:broken", steps=10, home=tmp_path)
    assert not list((tmp_path / "runs").iterdir())
