"""Threads, vector width and interruptions never show in the weights."""

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.training.processes import KEPT, RUNS, checksum, finished, metrics, newest_policy, start


@pytest.fixture(scope="module")
def kept() -> dict[str, str]:
    """The checksums in the repository: a change of one is a change that users notice."""
    sums: dict[str, str] = json.loads(KEPT.read_text())
    return sums


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])
@pytest.mark.parametrize("run", RUNS)
def test_every_vector_width_gives_the_kept_weights(run: str, isa: str, kept: dict[str, str], tmp_path: Path) -> None:
    process = start(run, tmp_path, isa=isa)
    out, err = process.communicate()
    if process.returncode != 0 and "this CPU" in err:
        pytest.skip(f"this CPU has no {isa}")
    assert process.returncode == 0, err
    assert out.strip() == kept[run]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("run", RUNS)
def test_every_number_of_threads_gives_the_kept_weights(
    run: str, threads: int, kept: dict[str, str], tmp_path: Path
) -> None:
    assert finished(start(run, tmp_path, threads=threads)).strip() == kept[run]


@pytest.mark.parametrize("run", RUNS)
def test_a_killed_run_ends_with_identical_weights_and_metrics(run: str, kept: dict[str, str], tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finished(start(run, whole))
    took = json.loads((whole / "runs" / run / "run.json").read_text())["seconds"]
    draw = np.random.default_rng(list(run.encode()))
    folder = broken / "runs" / run
    kills = 0
    for _ in range(8):
        process = start(run, broken, threads=int(draw.integers(1, 4)))
        wait_until_training(process, folder)
        time.sleep(float(draw.uniform(0, took / 2)))
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills > 1
    finished(start(run, broken))
    assert checksum(folder) == kept[run]
    assert newest_policy(folder) == newest_policy(whole / "runs" / run)
    assert_same_metrics(folder, whole / "runs" / run)


def wait_until_training(process: subprocess.Popen[str], folder: Path) -> None:
    """Until the process has taken the run's folder and is about to train, or has ended."""
    while process.poll() is None:
        try:
            if json.loads((folder / "run.json").read_text())["process"] == process.pid:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.001)


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
    process.send_signal(signal.SIGINT)
    finished(process)
    status = json.loads((folder / "run.json").read_text())
    assert status["status"] == "interrupted"
    assert finished(start("cartpole", tmp_path)).strip() == kept["cartpole"]
