"""Runners end well: forks, exits, garbage, signals and other threads neither hang nor crash; memory does not grow."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
START = """
import gc, os, signal, sys, threading, time
import numpy as np, gymnasium, hotloop

def flying(count=4000, groups=8, threads=4, name="acrobot"):
    envs = hotloop.make_vec(name, count, num_groups=groups, num_threads=threads)
    envs.reset(seed=0)
    for group in range(groups):
        envs.send(np.zeros(count // groups, np.int64), group)
    return envs

def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")

def native_threads():
    names = [open(f"/proc/self/task/{id}/comm").read() for id in os.listdir("/proc/self/task")]
    return sum(name.startswith("hotloop") for name in names)
"""


def script(code: str, cwd: Path, status: int = 0) -> str:
    """Runs code in a process of its own, in which a hang fails."""
    command = [sys.executable, "-c", START + textwrap.dedent(code)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200)
    assert done.returncode == status, f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "envs.close()", "del envs; gc.collect()"])
def test_a_process_ends_with_groups_in_flight(ending: str, tmp_path: Path) -> None:
    script(f"envs = flying()\n{ending}", tmp_path)


def test_a_process_ends_by_an_exception_with_groups_in_flight(tmp_path: Path) -> None:
    script("envs = flying()\nraise RuntimeError", tmp_path, status=1)


@LINUX
def test_garbage_collection_ends_the_threads(tmp_path: Path) -> None:
    script(
        """
        for _ in range(30):
            envs = flying()
            rollout = envs.rollout(3)
            envs.recv()
            envs.loop = envs  # only the collector can free it now
            while native_threads() < 3:  # a thread takes its name when it first runs
                time.sleep(0)
            del envs, rollout
            gc.collect()
            while native_threads():  # the system forgets a thread a moment after it was joined
                time.sleep(0)
        """,
        tmp_path,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_an_error_and_the_parent_goes_on(tmp_path: Path) -> None:
    result = script(
        """
        envs = flying()
        plain = hotloop.make_vec("cartpole", 4, num_threads=1)
        plain.reset(seed=0)
        for attempt in range(20):
            child = os.fork()
            if child == 0:
                calls = [
                    envs.recv, envs.reset, envs.snapshot, envs.episodes, envs.faults, envs.get_state,
                    lambda: envs.step(np.zeros(4000, np.int64)), lambda: envs.send(np.zeros(500, np.int64), 0),
                    lambda: envs.configure({"max_steps": 3}), lambda: plain.step([0, 0, 0, 0]),
                ]
                for call in calls:
                    try:
                        call()
                    except RuntimeError as error:
                        assert "made before the process forked" in str(error), error
                    else:
                        os._exit(9)
                envs.close()
                fresh = hotloop.make_vec("cartpole", 64, num_groups=4, num_threads=2)
                fresh.reset(seed=0)
                fresh.step(np.zeros(64, np.int64))
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            batch = envs.recv()
            envs.send(np.zeros(500, np.int64), batch.groups[0])
        plain.step([0, 0, 0, 0])
        print("parent went on")
        """,
        tmp_path,
    )
    assert result == "parent went on\n"


def test_a_signal_interrupts_a_wait_and_the_runner_goes_on(tmp_path: Path) -> None:
    script(
        """
        class Interrupted(Exception):
            pass

        def handler(*_):
            raise Interrupted

        signal.signal(signal.SIGALRM, handler)
        for attempt in range(5):
            envs = flying(400_000, groups=2, threads=2)
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            try:
                while True:
                    envs.send(np.zeros(200_000, np.int64), envs.recv().groups[0])
            except Interrupted:
                pass
            while envs._pool.in_flight:
                envs.recv()
            envs.step(np.zeros(400_000, np.int64))
        """,
        tmp_path,
    )


def test_a_signal_handler_can_close_the_runner(tmp_path: Path) -> None:
    script(
        """
        envs = flying(400_000, groups=2, threads=2)
        signal.signal(signal.SIGALRM, lambda *_: envs.close())
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            while True:
                envs.send(np.zeros(200_000, np.int64), envs.recv().groups[0])
        except gymnasium.error.ClosedEnvironmentError:
            pass
        """,
        tmp_path,
    )


def test_another_thread_can_close_the_runner(tmp_path: Path) -> None:
    script(
        """
        for attempt in range(20):
            envs = hotloop.make_vec("cartpole", 20_000, num_threads=2)
            envs.reset(seed=0)
            closing = threading.Timer(0.01, envs.close)
            closing.start()
            try:
                while True:
                    envs.step(np.zeros(20_000, np.int64))
            except gymnasium.error.ClosedEnvironmentError:
                closing.join()
        """,
        tmp_path,
    )


def test_two_threads_at_once_get_an_error_not_a_crash(tmp_path: Path) -> None:
    script(
        """
        envs = hotloop.make_vec("cartpole", 20_000, num_threads=2)
        envs.reset(seed=0)
        errors = []

        def loop():
            for _ in range(200):
                try:
                    envs.step(np.zeros(20_000, np.int64))
                except RuntimeError as error:
                    errors.append(str(error))

        threads = [threading.Thread(target=loop) for _ in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert all("another thread is using this runner" in error for error in errors), errors
        envs.step(np.zeros(20_000, np.int64))
        """,
        tmp_path,
    )


@LINUX
@pytest.mark.parametrize("held", [0, 5])
def test_memory_does_not_grow_over_ten_million_steps(held: int, tmp_path: Path) -> None:
    script(
        f"""
        from collections import deque

        def grown(name, count, steps, **keywords):
            envs = hotloop.make_vec(name, count, num_threads=2, **keywords)
            _, info = envs.reset(seed=0)
            kept = deque(maxlen={held})
            rollout = envs.rollout(8)
            actions = np.zeros_like(envs.action_space.sample())
            for step in range(steps):
                if step == steps // 10:
                    before = resident()
                if "action_mask" in info:
                    actions = info["action_mask"].argmax(axis=1)
                result = envs.step(actions)
                info = result[4]
                kept.append(result)
                if step % 50 == 0:
                    envs.episodes()
                    rollout.begin()
                    for group in range(envs.num_groups):
                        rows = envs.group_rows(group)
                        mask = rollout.action_mask
                        rollout.send(actions[rows] if mask is None else mask[0, rows].argmax(axis=1), group, 0)
                    for group in range(envs.num_groups):
                        envs.recv()
                    info = envs.restore(envs.snapshot())[1] if step % 500 == 0 else envs.set_state({{}})[1]
            return resident() - before

        # The first rounds fill what is kept for use again.
        plan = [
            ("cartpole", 4096, 2500, {{}}),
            ("cartpole", 1, 60_000, {{}}),
            ("pendulum", 512, 4000, {{"autoreset_mode": "same_step", "options": {{"max_steps": 20}}}}),
            ("tag", 64, 4000, {{"autoreset_mode": "same_step"}}),
            ("taxi", 256, 4000, {{"infos": ["prob"]}}),
        ]
        for name, count, steps, keywords in plan:
            assert grown(name, count, steps, **keywords) < 2 << 20, (name, count)
        """,
        tmp_path,
    )


@LINUX
def test_threads_default_to_the_cores_this_process_may_use(tmp_path: Path) -> None:
    result = script(
        """
        print(hotloop.make_vec("cartpole", 1).num_threads)
        os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[0]])
        print(hotloop.make_vec("cartpole", 1 << 17).num_threads, hotloop._core.usable_cores())
        """,
        tmp_path,
    )
    assert result == "1\n1 1\n"


@LINUX
def test_pinned_threads_stay_on_one_core_each(tmp_path: Path) -> None:
    script(
        """
        envs = hotloop.make_vec("cartpole", 64, num_threads=3, num_groups=4, pin_threads=True)
        envs.reset(seed=0)
        for _ in range(100):
            envs.step(np.zeros(64, np.int64))
        for id in os.listdir("/proc/self/task"):
            if open(f"/proc/self/task/{id}/comm").read().startswith("hotloop"):
                assert len(os.sched_getaffinity(int(id))) == 1
        assert len(os.sched_getaffinity(0)) == hotloop._core.usable_cores() or os.cpu_count() == 1
        """,
        tmp_path,
    )
