"""Real ranks under a real mpirun."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hotloop.bench.tabular import launch, launch_environment, mpirun
from hotloop.tabular.mpi import pack, unpack

pytestmark = pytest.mark.skipif(mpirun() is None, reason="there is no mpirun with mpi4py")
TRAIN = ["-m", "hotloop", "train", "tictactoe", "train.algorithm=q-learning", "tabular.runtime=mpi"]


def start(command: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**launch_environment(), "HOTLOOP_HOME": str(home)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def test_changes_survive_the_way() -> None:
    states = np.array([3, 500, 2**40], np.uint64)
    values = np.arange(12, dtype=np.float32)
    visits = np.arange(6, dtype=np.uint32)
    head, found = unpack(pack(7, 2, (states, values, visits), {"count": 1}), numbers=4, actions=2)
    assert (head["steps"], head["round"], head["counted"]) == (7, 2, {"count": 1})
    for sent, received in zip((states, values, visits), found, strict=True):
        assert (sent == received).all()


def test_three_ranks_learn_one_table(tmp_path: Path) -> None:
    limits = ["train.until=null", "--steps", "30000000", "tabular.table=sparse", "--json"]
    done = start(launch(3, [sys.executable, *TRAIN, *limits]), tmp_path)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    begun, end = events[0], events[-1]
    assert "3 MPI ranks x 1 threads, at most 4 rounds apart" in begun["learner"]
    assert end["steps"] >= 30_000_000
    assert end["evaluation"]["mean"] > 0.955
    assert end["evaluation"]["metrics"]["optimal_states"] > 0.95


def test_ranks_with_different_configs_name_the_difference(tmp_path: Path) -> None:
    first, second = ([sys.executable, *TRAIN, f"train.seed={seed}"] for seed in (0, 1))
    done = start([*launch(1, first), ":", "-n", "1", *second], tmp_path)
    assert done.returncode != 0
    assert "rank 1 has another config than rank 0: train.seed is 1 there and 0 here" in done.stdout + done.stderr
    assert not list((tmp_path / "runs").glob("*"))


def test_a_rank_that_fails_ends_the_job_and_the_table_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(
        """
import hotloop
from hotloop.tabular import mpi

rounds = mpi.Rank.round

def failing(rank):
    if rank.number == 1 and rank._rounds[1] == 20:
        raise ZeroDivisionError("a bug in rank one")
    return rounds(rank)

mpi.Rank.round = failing
config = {"train.algorithm": "q-learning", "tabular.runtime": "mpi", "train.until": None}
hotloop.train("tictactoe", steps=10**12, config=config, name="doomed")
"""
    )
    done = start(launch(2, [sys.executable, str(script)]), tmp_path)
    assert done.returncode != 0
    import socket

    result = done.stdout + done.stderr
    assert f"rank 1 on {socket.gethostname()} died:" in result
    assert "ZeroDivisionError: a bug in rank one" in result
    run = tmp_path / "runs" / "doomed"
    assert json.loads((run / "run.json").read_text())["status"] == "failed"
    assert list((run / "checkpoints").glob("*/policy.safetensors"))


def test_a_rank_that_is_killed_ends_the_job_and_the_table_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        """
import os, signal
import hotloop
from hotloop.tabular import mpi

rounds = mpi.Rank.round

def killed(rank):
    if rank.number == 1 and rank._rounds[1] == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return rounds(rank)

mpi.Rank.round = killed
config = {"train.algorithm": "q-learning", "tabular.runtime": "mpi", "train.until": None}
hotloop.train("tictactoe", steps=10**12, config=config, name="doomed")
"""
    )
    done = start(launch(2, [sys.executable, str(script)]), tmp_path)
    assert done.returncode != 0
    assert "rank 1" in done.stdout + done.stderr
    assert list((tmp_path / "runs" / "doomed" / "checkpoints").glob("*/policy.safetensors"))
