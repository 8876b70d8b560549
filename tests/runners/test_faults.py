"""Nothing that a Python env does takes a runner down."""

import os
import signal
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.runners.health import EnvError, Limits, WorkersFailedError
from hotloop.runners.reports import Fault
from tests.runners.python_envs import BAD, Bad

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
    # What the system kills without notice leaves no stack; everything else tells where it happened.
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
