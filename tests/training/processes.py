"""Real training processes for tests, to be killed and compared.

python -m tests.training.processes RUN HOME THREADS    begin a run of `RUNS`, or go on with it
python -m tests.training.processes --write             keep the checksums: only when learning was changed on purpose
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import hotloop
from hotloop.config.loader import build, parse_overrides
from hotloop.tracking.journal import read_all

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


def start(run: str, home: Path, *, threads: int = 2, isa: str | None = None) -> subprocess.Popen[str]:
    """Begins a run in a process of its own, or goes on with it."""
    environment = {**os.environ, **({} if isa is None else {"HOTLOOP_ISA": isa})}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.processes", run, str(home), str(threads)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    """The output of a process that must succeed."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def main(name: str, home: str, threads: str) -> None:
    """Trains."""
    if (Path(home) / "runs" / name / "config.yaml").exists():
        run = hotloop.train(resume=name, home=home)
    else:
        # Without the env's packaged defaults: tuning those is no change of the learner.
        overrides = {"env.name": name, **COMMON, **RUNS[name], "runner.num_threads": int(threads)}
        run = hotloop.train(name, config=build(parse_overrides(overrides)), name=name, home=home)
    print(checksum(run.path))


def write() -> None:
    """Store the results of this build."""
    with tempfile.TemporaryDirectory() as home:
        sums = {run: finished(start(run, Path(home))).strip() for run in RUNS}
    KEPT.write_text(json.dumps(sums, indent=2) + "\n")


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--write"] else main(*sys.argv[1:])
