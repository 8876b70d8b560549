"""Threads, vector width and interruptions never show in the weights."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.training.processes import (
    KEPT,
    ROOT,
    RUNS,
    checksum,
    kill,
    metrics,
    newest_policy,
    start,
    train,
    wait_until_training,
)
from tests.warm_process import finish


@pytest.fixture(scope="module")
def kept() -> dict[str, str]:
    """The checksums in the repository: a change of one is a change that users notice."""
    sums: dict[str, str] = json.loads(KEPT.read_text())
    return sums


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])
@pytest.mark.parametrize("run", RUNS)
def test_every_vector_width_gives_the_kept_weights(run: str, isa: str, kept: dict[str, str], tmp_path: Path) -> None:
    # The instruction set is chosen when the core is loaded.
    command = [sys.executable, "-m", "tests.training.processes", run, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "HOTLOOP_ISA": isa}, capture_output=True, text=True)
    if done.returncode != 0 and "this CPU" in done.stderr:
        pytest.skip(f"this CPU has no {isa}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == kept[run]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("run", RUNS)
def test_every_number_of_threads_gives_the_kept_weights(
    run: str, threads: int, kept: dict[str, str], tmp_path: Path
) -> None:
    assert checksum(train(run, tmp_path, threads)) == kept[run]


@pytest.mark.parametrize("run", RUNS)
def test_a_killed_run_ends_with_identical_weights_and_metrics(run: str, kept: dict[str, str], tmp_path: Path) -> None:
    whole, home = train(run, tmp_path / "whole"), tmp_path / "broken"
    took = json.loads((whole / "run.json").read_text())["seconds"]
    draw = np.random.default_rng(list(run.encode()))
    folder = home / "runs" / run
    kills = 0
    for _ in range(8):
        process = start(run, home, threads=int(draw.integers(1, 4)))
        wait_until_training(process, folder)
        time.sleep(float(draw.uniform(0, took / 2)))
        kills += kill(process)
    assert kills > 1
    assert finish(start(run, home)) == 0
    assert checksum(folder) == kept[run]
    assert newest_policy(folder) == newest_policy(whole)
    assert_same_metrics(folder, whole)


def assert_same_metrics(one: Path, two: Path) -> None:
    from hotloop.training.comparison import compare_events, read_events

    ours, theirs = metrics(one), metrics(two)
    assert [(line["event"], line["steps"]) for line in ours] == [(line["event"], line["steps"]) for line in theirs]
    old, new = (read_events(run / "metrics.jsonl") for run in (one, two))
    count, differences = compare_events(old, new, 10**12)
    # With the checkpoints.
    assert count > len(ours)
    assert differences == []


def test_a_run_that_was_asked_to_end_goes_on_exactly(kept: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "cartpole"
    process = start("cartpole", tmp_path)
    wait_until_training(process, folder)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    assert finish(process) == 0
    status = json.loads((folder / "run.json").read_text())
    assert status["status"] == "interrupted"
    assert finish(start("cartpole", tmp_path)) == 0
    assert checksum(folder) == kept["cartpole"]
