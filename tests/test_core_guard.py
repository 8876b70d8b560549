"""Whatever happens inside the native core, Python sees an ordinary exception with a clear message."""

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotloop import _core
from tests import core_calls

NO_CONSTRUCTOR = {"Memory", "Rollout"}


def everything_public() -> set[str]:
    """Functions, classes with a constructor, and members of classes."""
    names = set()
    for name in dir(_core):
        if name.startswith("_"):
            continue
        item = getattr(_core, name)
        if name not in NO_CONSTRUCTOR:
            names.add(name)
        if isinstance(item, type):
            names |= {f"{name}.{member}" for member in vars(item) if not member.startswith("_")}
    return names


def test_the_table_of_calls_covers_the_whole_core() -> None:
    calls = core_calls.function_calls() | core_calls.method_calls(core_calls.make_objects())
    assert calls.keys() == everything_public(), "add the new name to core_calls.py"


def assert_panic_is_an_error(name: str, call: Callable[[], Any]) -> None:
    _core._panic_in_next_call()
    with pytest.raises(RuntimeError, match=r"internal error: requested by a test \(.*\.rs:\d+:\d+\)") as caught:
        call()
    assert f", in {name}. This is a bug in Hotloop" in str(caught.value)
    assert "make a new one" in str(caught.value)


@pytest.mark.parametrize("name", sorted(core_calls.function_calls()))
def test_a_panic_in_a_function_is_an_error(name: str) -> None:
    is_class = isinstance(getattr(_core, name), type)
    assert_panic_is_an_error(f"{name}.new" if is_class else name, core_calls.function_calls()[name])


def test_a_panic_in_a_method_is_an_error() -> None:
    for name, call in core_calls.method_calls(core_calls.make_objects()).items():
        assert_panic_is_an_error(name, call)


HUGE_SEQUENCES: dict[str, Callable[[core_calls.Objects, Any], Any]] = {
    "Pool(infos)": lambda o, huge: core_calls.pool(infos=huge),
    "Pool.seed": lambda o, huge: o.pool.seed(huge),
    "Pool.seed(which)": lambda o, huge: o.pool.seed(0, which=huge),
    "Pool.reset": lambda o, huge: o.pool.reset(huge),
    "Pool.finals": lambda o, huge: o.pool.finals(huge),
    "Pool.configure": lambda o, huge: o.pool.configure({}, huge),
    "Pool.configure(option)": lambda o, huge: o.pool.configure({"max_steps": huge}),
    "Pool.set_policies": lambda o, huge: o.pool.set_policies(huge),
    "Pool.set_weights": lambda o, huge: o.pool.set_weights(huge),
    "Pool.set_state": lambda o, huge: o.pool.set_state({}, huge),
    "Signals.send_all": lambda o, huge: o.signals.send_all(huge, 1),
    "Signals.receive": lambda o, huge: o.signals.receive(huge, 1, 0.0),
    "Signals.next": lambda o, huge: o.signals.next(0, huge, 0.0, False),
    "Choices": lambda o, huge: _core.Choices(np.zeros((2, 4), np.int64), np.zeros(1, np.int64), huge, 2),
    "update_speed": lambda o, huge: _core.update_speed(4, huge, 2),
    "PpoLearner(policy)": lambda o, huge: _core.PpoLearner(
        "cartpole", None, {"hidden": huge}, rows=4, horizon=8, seed=0
    ),
    "PpoLearner.set_state": lambda o, huge: o.learner.set_state(o.learner.state() | {"adam.steps": huge}),
}


@pytest.mark.parametrize("length", [2**42, 2**62])
@pytest.mark.parametrize("name", HUGE_SEQUENCES)
def test_a_sequence_of_impossible_length_is_an_error(name: str, length: int) -> None:
    """Arguments are converted before the guard around a call is in place."""
    with pytest.raises((MemoryError, TypeError, ValueError), match=rf"{length}|expected 0 to 2\*\*64 - 1"):
        HUGE_SEQUENCES[name](core_calls.make_objects(), range(length))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["step", "reset", "observe"])
def test_a_panic_of_an_env_names_it_and_leaves_the_runner_usable(method: str, threads: int) -> None:
    name = f"panics-in-{method}-{threads}"
    _core._add_panicking_env(name, method)
    pool = _core.Pool(name, 6, num_threads=threads, num_groups=3, autoreset="same_step")
    pool.seed(0)
    message = rf"internal error in the env {name} \(one of envs \d to \d, rows \d to \d\)"
    with pytest.raises(RuntimeError, match=message):
        reset_and_step(pool)
    reset_and_step(pool)


def reset_and_step(pool: _core.Pool) -> None:
    pool.reset()
    pool.step(np.zeros(6, np.int64))


def test_a_panic_of_an_env_that_was_sent_is_raised_when_it_is_received() -> None:
    _core._add_panicking_env("panics-in-flight", "step")
    pool = _core.Pool("panics-in-flight", 4, num_threads=2, num_groups=4)
    pool.seed(0)
    pool.reset()
    pool.send(np.zeros(1, np.int64), 2)
    with pytest.raises(RuntimeError, match=r"\(env 2, row 2\).*bug in the env.*Reset the runner"):
        pool.recv(1)
    assert pool.in_flight == 0


@pytest.mark.parametrize("method", ["fields", "check", "adopt"])
def test_a_panic_in_the_state_of_an_env_names_the_env(method: str) -> None:
    name = f"panics-in-{method}"
    _core._add_panicking_env(name, method)
    pool = _core.Pool(name, 4, num_threads=1)
    pool.seed(0)
    pool.reset()
    with pytest.raises(RuntimeError, match=rf"internal error in the env {name} \(env 0, row 0\)"):
        pool.restore(pool.snapshot())
    pool.reset()
    pool.restore(pool.snapshot())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_panic_of_an_env_in_training_is_the_same_error_and_training_can_go_on(threads: int) -> None:
    name = f"panics-in-training-{threads}"
    _core._add_panicking_env(name, "step")
    pool = _core.Pool(name, 8, num_threads=1, num_groups=4, autoreset="same_step")
    pool.seed(0)
    pool.reset()
    learner = _core.PpoLearner("cartpole", None, {"hidden": [8]}, rows=8, horizon=8, seed=0, num_threads=threads)
    with pytest.raises(RuntimeError, match=rf"internal error in the env {name} \(one of envs \d to \d"):
        learner.iterate(pool, core_calls.SETTINGS, 1, 10.0)
    pool.reset()
    assert learner.iterate(pool, core_calls.SETTINGS, 2, 10.0)["iterations"] == 2


def test_a_panic_in_an_external_rollout_is_the_same_error() -> None:
    _core._add_panicking_env("panics-outside", "step")
    pool = _core.Pool("panics-outside", 4, num_threads=1, num_groups=2, autoreset="same_step")
    pool.seed(0)
    pool.reset()
    external = core_calls.external_rollout()
    external.observe(pool)
    outputs = np.zeros((4, external.outputs), np.float32)
    with pytest.raises(RuntimeError, match=r"panics-outside \(one of envs 0 to 1"):
        external.step(pool, 0, outputs, 0)
    pool.reset()
    external.observe(pool)
    external.step(pool, 0, outputs, 0)


def test_a_panic_of_an_env_ends_a_run_with_the_same_error(tmp_path: Path) -> None:
    script = """
        from hotloop import _core
        from hotloop.__main__ import main
        _core._add_panicking_env("cartpole", "step")
        main()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), "train", "cartpole", "--steps", "1000"],
        env={**os.environ, "HOTLOOP_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "internal error in the env cartpole (one of envs" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


def test_threads_get_results_or_a_clear_error_from_every_method() -> None:
    calls = core_calls.method_calls(core_calls.make_objects())
    del calls["Pool.close"]
    names = list(calls)
    unexpected: list[str] = []

    def hammer(number: int) -> None:
        for index in range(8 * len(names)):
            name = names[(index * 7 + number * 31) % len(names)]
            try:
                calls[name]()
            except RuntimeError as error:
                if not re.match(r"another thread is using this |.* in flight|group \d was not sent", str(error)):
                    unexpected.append(f"{name}: {error}")
            except BaseException as error:
                unexpected.append(f"{name}: {error!r}")

    run_together([partial(hammer, number) for number in range(4)])
    assert not unexpected, unexpected[:5]


def run_together(tasks: list[Callable[[], Any]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("noun", "busy", "calls"),
    [
        ("runner", "PpoLearner.iterate", ["Pool.step", "Pool.observe", "Pool.faults", "Pool.num_threads", "Pool.recv"]),
        ("learner", "PpoLearner.iterate", ["PpoLearner.state", "PpoLearner.rollout", "PpoLearner.act"]),
        ("learner", "TabularLearner.advance", ["TabularLearner.take_statistics", "TabularLearner.steps"]),
    ],
)
def test_an_object_in_use_says_so(noun: str, busy: str, calls: list[str]) -> None:
    objects = core_calls.make_objects()
    long_calls: dict[str, Callable[[], Any]] = {
        "PpoLearner.iterate": lambda: objects.learner.iterate(objects.pool, core_calls.SETTINGS, 10**9, 0.5),
        "TabularLearner.advance": lambda: objects.tabular.advance(10**9, 0.5),
    }
    thread = threading.Thread(target=long_calls[busy])
    others = core_calls.method_calls(objects)
    thread.start()
    refused: set[str] = set()
    while thread.is_alive():
        for name in calls:
            try:
                others[name]()
            except RuntimeError as error:
                if str(error).startswith(f"another thread is using this {noun}: one thread at a time"):
                    refused.add(name)
    assert refused == set(calls)


def test_an_env_that_changes_the_stepper_it_is_stepped_by_gets_an_error() -> None:
    stepper = core_calls.stepper()
    errors: list[str] = []

    def step(action: Any) -> Any:
        with pytest.raises(RuntimeError) as caught:
            stepper.put(0, core_calls.env_step, core_calls.env_reset)
        errors.append(str(caught.value))
        return core_calls.env_step(action)

    stepper.put(0, step, core_calls.env_reset)
    stepper.step([0], 0, True)
    assert errors
    assert errors[0].startswith("another thread is using this stepper")
