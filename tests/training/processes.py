"""Real training processes for tests, to be killed and compared.

python -m tests.training.processes RUN HOME    begin a run of `RUNS`, or go on with it
python -m tests.training.processes --write             keep the checksums: only when learning was changed on purpose
"""

import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import hotloop
from hotloop.config.loader import build, parse_overrides
from hotloop.tracking.journal import read_all
from tests import warm_process

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / "data" / "training_checksums.json"

# Normalisation, schedules, clipping and early stops: whatever could remember how a run was made.
COMMON: dict[str, Any] = {
    "ppo.epochs": 3,
    "ppo.learning_rate": 2e-3,
    "ppo.learning_rate_schedule": "linear",
    "ppo.entropy": 0.01,
    "ppo.entropy_schedule": "linear",
    "ppo.target_kl": 0.02,
    "ppo.value_clip": 0.5,
    "ppo.normalize_observations": True,
    "ppo.normalize_rewards": True,
    "train.seed": 11,
    "train.checkpoint_every": 9,
    "train.evaluate_every": 30,
    "train.evaluate_episodes": 10,
    "train.until": None,
    "track.interval": 7,
    "track.statistics_every": 20,
}
RUNS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "runner.num_envs": 80,
        "ppo.horizon": 32,
        "ppo.minibatch_size": 640,
        "train.steps": 80 * 32 * 120,
        "policy.hidden": [64, 64],
    },
    "pendulum": {
        "runner.num_envs": 37,
        "ppo.horizon": 29,
        "ppo.minibatch_size": 300,
        "train.steps": 37 * 29 * 60,
        "policy.hidden": [33, 20],
        "policy.shared": False,
        "policy.activation": "silu",
    },
    "taxi": {
        "runner.num_envs": 20,
        "ppo.horizon": 33,
        "ppo.minibatch_size": 200,
        "train.steps": 20 * 33 * 60,
        "policy.embedding": 7,
        "policy.hidden": [24],
        "policy.activation": "relu",
    },
    "tag": {
        "env.seats": 3,
        "runner.num_envs": 30,
        "ppo.horizon": 20,
        "ppo.minibatch_size": 450,
        "train.steps": 30 * 3 * 20 * 50,
        "policy.activation": "gelu",
        "policy.hidden": [40, 16],
    },
    "recall": {
        "env.delay": 5,
        "runner.num_envs": 36,
        "ppo.horizon": 24,
        "ppo.sequence_length": 12,
        "ppo.minibatch_size": 240,
        "train.steps": 36 * 24 * 40,
        "policy.hidden": [20],
        "policy.memory": "lstm",
        "policy.memory_size": 24,
    },
    "tictactoe": {
        "runner.num_envs": 33,
        "ppo.horizon": 20,
        "ppo.minibatch_size": 220,
        "train.steps": 33 * 20 * 40,
        "policy.hidden": [18],
        "policy.shared": False,
        "policy.memory": "gru",
        "policy.memory_size": 19,
        "policy.memory_layers": 2,
    },
}


def newest_policy(run: Path) -> bytes:
    """The weights and statistics of a run's last checkpoint."""
    newest = max((run / "checkpoints").glob("[0-9]*"), key=lambda path: int(path.name))
    return (newest / "policy.safetensors").read_bytes()


def checksum(run: Path) -> str:
    """Of the final weights and statistics."""
    return hashlib.sha256(newest_policy(run)).hexdigest()


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return the records, evaluations and checkpoints of a run, without times."""
    times = ("seconds", "seconds_in", "steps_per_second", "time", "at", "sample")
    return [{key: value for key, value in event.items() if key not in times} for event in recorded(run)]


def recorded(run: Path) -> list[dict[str, Any]]:
    """Return the valid records, evaluations and troubles of a run."""
    result = ("iteration", "evaluation", "trouble")
    return [event for event in read_all(run / "metrics.jsonl") if event["event"] in result]


def train(name: str, home: Path, threads: int = 2) -> Path:
    """Begin a run, or go on with it; return its folder."""
    if (home / "runs" / name / "config.yaml").exists():
        return hotloop.train(resume=name, home=home).path
    # Without the env's packaged defaults: tuning those is no change of the learner.
    overrides = {"env.name": name, **COMMON, **RUNS[name], "runner.num_threads": threads}
    return hotloop.train(name, config=build(parse_overrides(overrides)), name=name, home=home).path


def train_quietly(name: str, home: Path, threads: int = 2) -> None:
    """Train in a process of its own, whose output nobody reads."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    train(name, home, threads)


def start(run: str, home: Path, *, threads: int = 2) -> BaseProcess:
    """Begin a run in a process of its own, or go on with it."""
    return warm_process.start(train_quietly, run, home, threads)


def wait_until_training(process: BaseProcess, folder: Path) -> None:
    """Wait until the process has taken the run's folder and is about to train, or has ended."""
    while process.is_alive():
        try:
            if json.loads((folder / "run.json").read_text())["process"] == process.pid:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.001)


def kill(process: BaseProcess) -> bool:
    """Kill a process; return whether that is what ended it."""
    process.kill()
    return warm_process.finish(process) == -signal.SIGKILL


def train_until_write(home: Path, call: int, steps: int, config: dict[str, Any]) -> None:
    """Train a run; die before this call of `fsync`, or leave the number of calls in a file beside the runs."""
    real, calls = os.fsync, 0

    def fsync(fd: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        real(fd)

    os.fsync = fsync
    hotloop.train("cartpole", steps=steps, config=config, name="run", home=home, store="none", progress=False)
    (home / "calls").write_text(str(calls))


def write() -> None:
    """Store the results of this build."""
    with tempfile.TemporaryDirectory() as home:
        sums = {run: checksum(train(run, Path(home))) for run in RUNS}
    KEPT.write_text(json.dumps(sums, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        print(checksum(train(sys.argv[1], Path(sys.argv[2]))))
