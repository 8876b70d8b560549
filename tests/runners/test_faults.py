"""Nothing that a Python env does takes a runner down."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import hotloop
from hotloop.errors import EnvError, WorkersFailedError
from hotloop.runners.health import Limits
from hotloop.runners.processes import ProcessRunner
from hotloop.runners.reports import Fault
from tests.runners.python_envs import BAD, Bad, Counter

LIMITS = Limits(step=1.0, memory=120)
KINDS = {
    "raise": ("raise", "ZeroDivisionError: the env divided by zero"),
    "exit": ("exit", "exited with code 3"),
    "kill": ("killed", "SIGKILL"),
    "segv": ("killed", "SIGSEGV"),
    "hang": ("timeout", "step_timeout 1 s"),
    "memory": ("memory", "runner.memory_limit 120"),
    "nan": ("raise", "observation has a number that is not finite"),
    "shape": ("raise", r"observation has shape \(4,\): its space has \(3,\)"),
    "dtype": ("raise", "observation has dtype <U1"),
    "reward": ("raise", "reward is 'much': expected a number"),
    "infinite reward": ("raise", "reward is inf: expected a finite number"),
}


@pytest.fixture(scope="module")
def runner() -> Any:
    with hotloop.make_vec(Bad, 4, num_workers=2, autoreset_mode="same_step", limits=LIMITS) as made:
        made.reset(seed=0)
        yield made


@pytest.mark.parametrize("what", KINDS)
def test_a_fault_is_cut_reported_and_leaves_the_others_alone(runner: Any, what: str) -> None:
    runner.reset(seed=1)
    runner.faults()
    heard: list[Fault] = []
    runner.listen(heard.append)
    runner.step([0, 0, 0, 0])
    obs, reward, terminated, truncated, info = runner.step([BAD.index(what), 0, 0, 0])
    kind, words = KINDS[what]
    (fault,) = runner.faults().first
    assert (fault.kind, fault.env, fault.worker) == (kind, 0, 0)
    assert fault.actions[-2:] == (0, BAD.index(what))
    assert fault.seed is not None
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(fault.what)
    # A process that the system kills leaves no stack; all other faults have one.
    assert what in ("exit", "kill") or "step" in fault.traceback
    assert fault.report().startswith("env 0 of worker 0")
    assert heard == [fault]
    # A lost process takes the other env of its worker along; the other worker's envs never notice.
    lost = [True, kind != "raise", False, False]
    assert info["cut"].tolist() == truncated.tolist() == lost
    assert not terminated.any()
    assert reward.tolist() == [0.0 if gone else 1.0 for gone in lost]
    assert obs[:, 0].tolist() == [0.0 if gone else 2.0 for gone in lost]
    obs, _, _, truncated, info = runner.step([0, 0, 0, 0])
    assert obs[:, 0].tolist() == [1.0 if gone else 3.0 for gone in lost]
    assert "cut" not in info
    assert all(worker.state == "alive" for worker in runner.health())
    assert runner.health()[0].last_fault == fault


def test_groups_of_a_lost_worker_come_back_ready_first(runner: Any) -> None:
    runner.reset(seed=2)
    for group in range(4):
        runner.send([BAD.index("kill") if group == 0 else 0], group)
    batches = [runner.recv() for _ in range(4)]
    assert sorted(batch.groups[0] for batch in batches) == [0, 1, 2, 3]
    assert {batch.groups[0] for batch in batches[:2]} == {2, 3}
    cut = {batch.groups[0]: bool(batch.info.get("cut", np.zeros(1))[0]) for batch in batches}
    assert cut[0]
    assert not cut[2]


def test_a_worker_that_dies_between_steps_is_replaced(runner: Any) -> None:
    runner.reset(seed=3)
    os.kill(runner.health()[1].pid, signal.SIGKILL)
    _, _, _, truncated, info = runner.step([0, 0, 0, 0])
    assert truncated.tolist() == info["cut"].tolist() == [False, False, True, True]
    assert runner.faults().first[-1].kind == "killed"


def test_past_its_limit_of_faults_a_runner_gives_up_with_a_report() -> None:
    with hotloop.make_vec(Bad, 2, num_workers=1, limits=Limits(restarts=2)) as runner:
        runner.reset(seed=0)
        for _ in range(2):
            runner.step([BAD.index("raise"), 0])
        with pytest.raises(WorkersFailedError, match=r"3 times within an hour(.|\n)*ZeroDivisionError(.|\n)*in step"):
            runner.step([BAD.index("raise"), 0])


def test_a_runner_that_gave_up_says_so_again_instead_of_waiting() -> None:
    with hotloop.make_vec(Bad, 1, num_workers=1, limits=Limits(restarts=0)) as runner:
        runner.reset(seed=0)
        runner.send([BAD.index("kill")], 0)
        for _ in range(2):
            with pytest.raises(WorkersFailedError, match=r"more than runner\.restart_limit 0(.|\n)*SIGKILL"):
                runner.recv()


def test_a_reset_that_always_fails_is_an_error_with_its_traceback() -> None:
    def bad() -> Any:
        env = Bad()
        made = env.reset
        env.reset = lambda **keywords: made(seed=0, options={"fail": True} if keywords["seed"] else None)  # type: ignore[method-assign]
        return env

    with (
        hotloop.make_vec(bad, 2, num_workers=2) as runner,
        pytest.raises((EnvError, WorkersFailedError), match="asked to fail at reset"),
    ):
        runner.reset(seed=1)


@pytest.mark.parametrize("call", ["snapshot", "restore", "get_state", "configure"])
def test_a_worker_that_dies_before_it_is_asked_is_replaced(call: str) -> None:
    with ProcessRunner(Counter, 4, num_workers=2) as runner:
        runner.reset(seed=0)
        before, *_ = runner.step([1, 1, 1, 1])
        kept = runner.snapshot()
        pid = runner.health()[1].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        asked: dict[str, Any] = {"restore": {"state": kept}, "configure": {"options": {"level": 2}}}
        getattr(runner, call)(**asked.get(call, {}))
        assert runner.faults().count == 1
        obs, _, _, _, info = runner.step([1, 1, 1, 1])
        if call == "restore":
            # The lost state is restored.
            np.testing.assert_allclose(obs[:, 0], before.sum(1), rtol=1e-6)
            assert "cut" not in info
        else:
            assert info["cut"].tolist() == [False, False, True, True]


class Secretive(Counter):
    """Offers a state that it does not give."""

    def get_state(self) -> dict[str, Any]:
        match self._how:
            case "raise":
                raise RuntimeError("the level cannot be saved")
            case "object":
                return {"walk": object()}
        time.sleep(3600)
        raise AssertionError

    def __init__(self, how: str) -> None:
        self._how = how


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "get_state raised RuntimeError: the level cannot be saved"),
        ("object", "get_state raised EnvOutputError: the state's field 'walk' is <object"),
    ],
)
def test_an_env_that_cannot_return_its_state_is_reset_and_reported(how: str, words: str) -> None:
    with ProcessRunner(Secretive, 2, num_workers=1, options={"how": how}, limits=Limits(restarts=0)) as runner:
        runner.reset(seed=0)
        kept = runner.snapshot()
        faults = runner.faults().first
        assert [(fault.env, fault.kind) for fault in faults] == [(0, "state"), (1, "state")]
        assert faults[0].what.startswith(words)
        assert "get_state" in faults[0].traceback
        assert "cut" not in runner.step([1, 1])[4]
        runner.restore(kept)
        assert runner.restarted_envs == 2


def test_a_worker_that_hangs_whenever_it_is_asked_ends_in_a_report() -> None:
    limits = Limits(reset=0.5)
    with hotloop.make_vec(Secretive, 2, num_workers=1, options={"how": "hang"}, limits=limits) as runner:
        runner.reset(seed=0)
        with pytest.raises(WorkersFailedError, match=r"lost 3 times during get_state(.|\n)*in get_state"):
            runner.snapshot()
        # The rest can be saved, as the trainer does before it ends.
        assert runner.snapshot()


class Sleeper(Counter):
    """Is never made."""

    def __init__(self) -> None:
        time.sleep(3600)


def test_envs_that_take_too_long_to_be_made_are_an_error_that_says_where() -> None:
    with pytest.raises(EnvError, match=r"took more than 3 s to make its envs(.|\n)*boot.py(.|\n)*in main"):
        hotloop.make_vec(Sleeper, 1, num_workers=1, limits=Limits(start=3.0))


class Parent(Counter):
    """Has processes of its own, one of which holds all files open that it inherits."""

    def __init__(self, folder: str) -> None:
        children = [subprocess.Popen(["sleep", "3600"]).pid, os.fork()]
        if children[1] == 0:
            time.sleep(3600)
            os._exit(0)
        Path(folder, str(os.getpid())).write_text(" ".join(map(str, children)))

    def step(self, action: int) -> Any:
        if action == 2:
            os._exit(1)
        return super().step(action)


def test_what_envs_start_ends_with_their_worker(tmp_path: Path) -> None:
    def children(worker: int | None) -> list[int]:
        return [int(pid) for pid in Path(tmp_path, str(worker)).read_text().split()]

    with ProcessRunner(Parent, 2, num_workers=2, options={"folder": str(tmp_path)}) as runner:
        runner.reset(seed=0)
        lost, other = (children(worker.pid) for worker in runner.health())
        runner.step([2, 0])
        _wait_until_gone(lost)
        assert all(map(_lives, other))
        replaced = children(runner.health()[0].pid)
    _wait_until_gone([*other, *replaced])


def _wait_until_gone(pids: list[int]) -> None:
    end = time.monotonic() + 30.0
    while any(map(_lives, pids)):
        assert time.monotonic() < end, f"of {pids} some are left"
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_what_envs_print_stays_out_of_standard_output() -> None:
    program = """
import hotloop
from tests.runners.python_envs import Counter

class Talkative(Counter):
    def reset(self, **keywords):
        print("a word of the env")
        return super().reset(**keywords)

hotloop.make_vec(Talkative, 1, num_workers=1).reset(seed=0)
print("a word of the program")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "a word of the program\n"
    assert "a word of the env" in result.stderr
