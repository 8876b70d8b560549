"""Envs that damage the process they run in: its files, its descriptors, its image; and the death of the runner."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium import spaces

import hotloop
from hotloop.errors import EnvError
from hotloop.runners.health import Limits
from hotloop.runners.worker_process import check_version

DAMAGE = ("none", "close", "close and open", "fork", "exec", "descriptors", "stdin", "slow C")


class Damaging(gymnasium.Env[Any, int]):
    """Does to its process what its action names; offers its state."""

    observation_space = spaces.Box(0, 100, (1,))
    action_space: spaces.Space[Any] = spaces.Discrete(len(DAMAGE))

    def __init__(self) -> None:
        self._open: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        match DAMAGE[action]:
            case "close":
                os.closerange(3, 256)
            case "close and open":
                os.closerange(3, 256)
                # Their numbers are those of the worker's own files now.
                self._open = [os.pipe() for _ in range(8)]
            case "fork":
                os.fork()
            case "exec":
                os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"])
            case "descriptors":
                while True:
                    KEPT.append(os.dup(1))
            case "stdin":
                os.close(0)
            case "slow C":
                # Returns early when a signal arrives, as ours does at the time limit.
                ctypes.CDLL(None).sleep(600)
        self._count += 1
        return np.array([self._count], np.float32), 1.0, False, False, {}

    def get_state(self) -> dict[str, Any]:
        return {"count": np.array(self._count)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._count = int(state["count"])


KEPT: list[int] = []


@pytest.fixture
def runner() -> Any:
    with hotloop.make_vec(Damaging, 2, num_workers=2, limits=Limits(step=2.0)) as made:
        made.reset(seed=0)
        yield made


def goes_on(runner: Any) -> None:
    assert runner.step([0, 0])[0].shape == (2, 1)
    assert len(runner.snapshot()) > 0
    assert {worker.state for worker in runner.health()} == {"alive"}


@pytest.mark.parametrize("what", ["close", "close and open"])
def test_a_worker_whose_files_an_env_closed_is_replaced_at_the_latest_when_it_is_asked(runner: Any, what: str) -> None:
    runner.step([DAMAGE.index(what), 0])
    assert len(runner.snapshot()) > 0
    goes_on(runner)
    assert [worker.restarts for worker in runner.health()] == [1, 0]
    (fault,) = runner.faults().first
    assert fault.kind in ("exit", "raise")


def test_an_env_that_replaces_its_process_is_cut(runner: Any) -> None:
    info = runner.step([DAMAGE.index("exec"), 0])[4]
    assert info["cut"].tolist() == [True, False]
    (fault,) = runner.faults().first
    assert "its worker closed its connection to the runner" in fault.what
    goes_on(runner)


def test_a_child_that_returns_from_a_fork_does_not_step_envs(runner: Any) -> None:
    assert runner.step([DAMAGE.index("fork"), 0])[0].tolist() == [[1.0], [1.0]]
    for turn in range(2, 6):
        assert runner.step([0, 0])[0].tolist() == [[turn], [turn]]
    goes_on(runner)
    assert runner.faults().count == 0


def test_a_worker_out_of_descriptors_is_replaced(runner: Any) -> None:
    info = runner.step([DAMAGE.index("descriptors"), 0])[4]
    assert info["cut"].tolist() == [True, False]
    (fault,) = runner.faults().first
    assert "Too many open files" in fault.what
    assert [worker.restarts for worker in runner.health()] == [1, 0]
    goes_on(runner)


def test_closing_stdin_does_no_harm(runner: Any) -> None:
    runner.step([DAMAGE.index("stdin"), 0])
    goes_on(runner)
    assert runner.faults().count == 0


def test_a_step_beyond_its_limit_is_never_accepted(runner: Any) -> None:
    info = runner.step([DAMAGE.index("slow C"), 0])[4]
    assert info["cut"].tolist() == [True, False]
    (fault,) = runner.faults().first
    assert fault.kind == "timeout"
    goes_on(runner)


ORPHANS = """
import os, signal, sys
import gymnasium, numpy, hotloop

class Spin(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return numpy.zeros(1, numpy.float32), {}

    def step(self, action):
        # One write: the lines of two workers must not mix.
        os.write(2, b"pid %d\\n" % os.getpid())
        sum(range(10**12))

envs = hotloop.make_vec(Spin, num_envs=2, num_workers=2)
envs.reset(seed=0)
envs.step([0, 0])
"""


def test_workers_that_spin_in_native_code_die_with_a_killed_runner() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHANS], stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        pids = (int(line.split()[1]) for line in program.stderr if line.startswith("pid "))
        workers = [psutil.Process(next(pids)) for _ in range(2)]
        program.send_signal(signal.SIGKILL)
        program.wait()
        _, alive = psutil.wait_procs(workers, timeout=20)
        assert not alive


def test_an_old_interpreter_is_named_with_its_version(tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    # As Python 3.10 does with an option that it does not know.
    old.write_text('#!/bin/sh\nif [ "$1" = "-c" ]; then echo 3 10; else exit 2; fi\n')
    old.chmod(0o755)
    with pytest.raises(EnvError, match=r"python3.10, which is Python 3.10: workers need 3.11 or newer"):
        hotloop.make_vec(Damaging, 1, num_workers=1, worker_python=old)
    check_version(sys.executable)
