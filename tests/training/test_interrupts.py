"""Signals and sudden ends: a run is left whole, wherever they strike."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hotloop
from hotloop.config import load_config
from hotloop.training import Callback, Run, interrupts
from hotloop.training.callbacks import CheckpointReport, EvaluationProgress, IterationReport
from hotloop.training.start import begin
from tests import warm_process
from tests.training.processes import newest_policy, recorded, train_until_write

SMALL: dict[str, Any] = {
    "runner.num_envs": 8,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "ppo.normalize_observations": True,
    "policy.hidden": [16],
    "train.checkpoint_every": 5,
    "train.evaluate_every": 5,
    "train.evaluate_episodes": 3,
    "train.until": None,
    "track.interval": 4,
}
STEPS = 8 * 16 * 22


class Signals(Callback):
    def __init__(self, number: int, *, twice: bool = False) -> None:
        self.number, self.twice, self.asked = number, twice, False

    def iteration(self, report: IterationReport) -> None:
        if report.iterations == 12:
            self.asked = True
            os.kill(os.getpid(), self.number)

    def checkpoint(self, report: CheckpointReport) -> None:
        if self.asked and self.twice:
            os.kill(os.getpid(), self.number)


class DuringEvaluation(Callback):
    """Asks for the run's end while an evaluation is going on."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask

    def evaluating(self, report: EvaluationProgress) -> None:
        assert report.done < report.episodes
        self._ask()


@pytest.mark.parametrize("way", ["signal", "call"])
@pytest.mark.parametrize("env", ["cartpole", "tests.runners.python_envs:counter"])
def test_a_request_to_end_abandons_an_evaluation_which_comes_on_resume(env: str, way: str, tmp_path: Path) -> None:
    config = {**SMALL, "runner.num_workers": 1, "train.checkpoint_every": 0, "train.evaluate_episodes": 30}
    whole = hotloop.train(env, steps=STEPS, config=config, name="run", home=tmp_path / "whole")
    loaded = load_config(env, overrides={**config, "train.steps": STEPS})
    ask = DuringEvaluation(
        (lambda: os.kill(os.getpid(), signal.SIGINT)) if way == "signal" else (lambda: trainer.request_stop())
    )
    trainer = begin(loaded, name="run", home=tmp_path, callbacks=[ask])
    run = trainer.run()
    assert (run.ended, run.iterations, run.evaluation) == ("interrupted", 5, None)
    assert (run.path / "checkpoints" / str(run.steps)).is_dir()
    again = hotloop.train(resume=run.path, trust=True)
    assert newest_policy(run.path) == newest_policy(whole.path)
    events = [[(event["event"], event["iterations"]) for event in recorded(path)] for path in (run.path, whole.path)]
    assert events[0] == events[1]
    assert again.evaluation == whole.evaluation


def trained(home: Path, *callbacks: Callback) -> Run:
    return hotloop.train("cartpole", steps=STEPS, config=SMALL, name="run", home=home, callbacks=callbacks)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_cleanly_and_it_goes_on_exactly(number: int, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    whole = trained(tmp_path / "whole")
    run = trained(tmp_path, Signals(number))
    assert (run.ended, run.iterations) == ("interrupted", 12)
    assert signal.getsignal(number) is before
    assert json.loads((run.path / "run.json").read_text())["status"] == "interrupted"
    hotloop.train(resume=run.path)
    assert newest_policy(run.path) == newest_policy(whole.path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_at_once_are_one_request(number: int, tmp_path: Path) -> None:
    class Both(Signals):
        def iteration(self, report: IterationReport) -> None:
            super().iteration(report)
            super().iteration(report)

    run = trained(tmp_path, Both(number))
    assert (run.ended, run.iterations) == ("interrupted", 12)


def test_timeout_leaves_a_checkpoint(tmp_path: Path) -> None:
    # It signals the process, and then its whole group.
    train = [sys.executable, "-m", "hotloop", "train", "cartpole", "train.until=null"]
    train += ["--steps", str(10**12), "--name", "run"]
    done = subprocess.run(["timeout", "4", *train], env={**os.environ, "HOTLOOP_HOME": str(tmp_path)}, text=True)
    assert done.returncode in (124, 130)
    assert newest_policy(tmp_path / "runs" / "run")


def test_a_later_signal_ends_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "SAME_REQUEST", 0.0)
    # Whoever runs the tests in the background may have SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path, Signals(signal.SIGINT, twice=True))
    finally:
        signal.signal(signal.SIGINT, before)
    assert hotloop.train(resume="run", home=tmp_path).steps == STEPS


INTERRUPTED_IN_NATIVE_CODE = """
import os, signal, sys, threading
import hotloop
from hotloop.config import load_config
from hotloop.training import Callback, interrupts

interrupts.SAME_REQUEST = 0.0
noted, note = threading.Event(), interrupts.Interrupts._note

def noting(self, number, frame):
    noted.set()
    note(self, number, frame)

interrupts.Interrupts._note = noting
signal.signal(signal.SIGINT, signal.default_int_handler)
main = threading.main_thread().ident

def strike():
    while sys._current_frames()[main].f_code.co_name != "advance":
        pass
    os.kill(os.getpid(), signal.SIGINT)
    noted.wait()
    print("noted", flush=True)
    os.kill(os.getpid(), signal.SIGINT)

class Strikes(Callback):
    def start(self, report):
        threading.Thread(target=strike, daemon=True).start()

try:
    own = {"name": "run", "home": sys.argv[1], "callbacks": [Strikes()], "progress": False}
    hotloop.train("cartpole", steps=10**9, config=%r, **own)
except KeyboardInterrupt:
    print("at once")
"""


@pytest.mark.parametrize("endless", [{"ppo.epochs": 10**9}, {"ppo.horizon": 200_000}])
def test_a_second_signal_ends_it_in_the_middle_of_a_long_native_call(endless: dict[str, Any], tmp_path: Path) -> None:
    config = {**SMALL, "policy.hidden": [512] * 6, **endless}
    command = [sys.executable, "-c", INTERRUPTED_IN_NATIVE_CODE % (config,), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("noted\nat once\n", "")


def test_a_kill_at_any_moment_of_writing_leaves_a_run_that_goes_on_exactly(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole")
    lines = len(recorded(whole.path))

    def killed_at(call: int) -> int:
        return warm_process.run(train_until_write, tmp_path / str(call), call, STEPS, SMALL)

    assert killed_at(0) == 0
    every = int((tmp_path / "0" / "calls").read_text())
    # Before the fourth call there is no run yet: its folder appears at once.
    for call in [*range(4, 18, 2), *range(every - 9, every + 1)]:
        assert killed_at(call) == -signal.SIGKILL, call
        run = hotloop.train(resume="run", home=tmp_path / str(call))
        assert newest_policy(run.path) == newest_policy(whole.path), call
        assert len(recorded(run.path)) == lines, call
        assert not list((run.path / "checkpoints").glob(".*"))
