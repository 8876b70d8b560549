"""The runner of Python envs: what it gives is what the envs give, whoever steps them and in whatever order."""

import gc
import os
import signal
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import hotloop
from hotloop.errors import EnvError
from hotloop.runners.health import Limits
from hotloop.runners.processes import ProcessRunner
from tests.envs.hybrid_envs import REACH
from tests.runners.python_envs import BAD, Bad

COUNTER = "tests.runners.python_envs:counter"


def make(env: Any, num_envs: int, **keywords: Any) -> ProcessRunner:
    runner: Any = hotloop.make_vec(env, num_envs, **keywords)
    assert isinstance(runner, ProcessRunner)
    return runner


def play(runner: ProcessRunner, steps: int) -> list[Any]:
    rng = np.random.default_rng(1)
    return [runner.step(rng.integers(0, 2, runner.num_envs)) for _ in range(steps)]


def test_steps_are_those_of_gymnasiums_own_vector_env() -> None:
    seeds: list[int | None] = [5, 6, 7]
    theirs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3)
    expected = [theirs.reset(seed=seeds)[0]]
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (60, 3))
    expected += [theirs.step(action) for action in actions]
    with make("gymnasium:CartPole-v1", 3, num_workers=2) as ours:
        np.testing.assert_array_equal(ours.reset(seed=seeds)[0], expected[0])
        for action, (obs, reward, terminated, truncated, _) in zip(actions, expected[1:], strict=True):
            found = ours.step(action)
            for mine, their in zip(found[:4], (obs, reward, terminated, truncated), strict=True):
                np.testing.assert_array_equal(mine, their)


def test_neither_workers_nor_groups_show_in_what_comes_back() -> None:
    reports = []
    for workers, groups in ((0, 1), (1, 3), (2, 2)):
        with make(
            COUNTER, 5, num_workers=workers, groups_per_worker=groups, autoreset_mode="same_step", infos=["success"]
        ) as runner:
            first, _ = runner.reset(seed=3)
            steps = play(runner, 20)
            report = runner.episodes()
            reports.append((first, steps, report.return_mean, report.count, report.recent.rows.tolist()))
    for first, steps, *counted in reports[1:]:
        np.testing.assert_array_equal(first, reports[0][0])
        assert counted == list(reports[0][2:])
        for one, other in zip(steps, reports[0][1], strict=True):
            for mine, theirs in zip(one[:4], other[:4], strict=True):
                np.testing.assert_array_equal(mine, theirs)
            assert one[4].keys() == other[4].keys()


@pytest.mark.parametrize("env", ["counter", "odd"])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_steps_by_one_native_call_are_those_of_one_after_the_other(env: str, mode: str) -> None:
    reports = []
    # Whose infos are wanted is stepped by Python code.
    for infos in ([], ["success"]):
        with make(f"tests.runners.python_envs:{env}", 5, num_workers=0, autoreset_mode=mode, infos=infos) as runner:
            assert runner._pool._local is not None
            assert (runner._pool._local._groups[0].stepper is None) == bool(infos)
            runner.set_reward_weights({"reward": 0.3})
            runner.reset(seed=3)
            steps = play(runner, 60)
            runner.configure({"unknown": 1}, [1])
            runner._seed(9)
            steps += play(runner, 60)
            counts = runner._take_episodes()
            reports.append((steps, counts["count"], counts["returns"].tolist(), counts["lengths"].tolist()))
    (plain, *counted), (other, *theirs) = reports
    assert counted == theirs
    assert counted[0] > 60
    for one, two in zip(plain, other, strict=True):
        for mine, their in zip(one[:4], two[:4], strict=True):
            np.testing.assert_array_equal(mine, their)
        if "_final_obs" in two[4]:
            np.testing.assert_array_equal(one[4]["_final_obs"], two[4]["_final_obs"])
            for row in np.flatnonzero(two[4]["_final_obs"]):
                np.testing.assert_array_equal(one[4]["final_obs"][row], two[4]["final_obs"][row])


def test_final_observations_and_wanted_infos_are_in_info() -> None:
    with make(COUNTER, 2, num_workers=0, autoreset_mode="same_step", infos=["success"]) as runner:
        runner.reset(seed=0)
        ended = False
        for _ in range(30):
            obs, _, terminated, truncated, info = runner.step([2, 2])
            np.testing.assert_array_equal(info["_success"], ~(terminated | truncated))
            for row in np.flatnonzero(terminated | truncated):
                ended = True
                assert abs(info["final_obs"][row][0]) > abs(obs[row][0])
                assert obs[row][0] == 0
                assert info["final_info"]["success"][row] == terminated[row]
        assert ended


def test_groups_come_back_ready_first_with_the_results_of_lock_step() -> None:
    with make(COUNTER, 4, num_workers=2, groups_per_worker=2, autoreset_mode="same_step") as runner:
        runner.reset(seed=0)
        received: dict[int, list[Any]] = {group: [] for group in range(runner.num_groups)}
        for group in received:
            runner.send([2], group)
        in_flight = len(received)
        while in_flight:
            batch = runner.recv(1)
            (group,) = batch.groups
            finals = batch.info["final_obs"][batch.terminated] if batch.terminated.any() else []
            received[group].append((*(array.copy() for array in batch[:4]), len(finals)))
            if len(received[group]) < 6:
                runner.send([2], group)
            else:
                in_flight -= 1
        with pytest.raises(RuntimeError, match="no group is in flight"):
            runner.recv()
        runner.reset(seed=0)
        for slot in range(6):
            outcome = runner.step([2] * 4)[:4]
            for group in received:
                for own, whole in zip(received[group][slot], outcome, strict=False):
                    np.testing.assert_array_equal(own, whole[runner.group_rows(group)])
                assert received[group][slot][4] == received[group][slot][2].sum()
        assert any(step[2].any() for steps in received.values() for step in steps)


def test_a_snapshot_is_exact_where_envs_offer_their_state() -> None:
    with make(COUNTER, 4, num_workers=2, autoreset_mode="same_step") as runner:
        runner.reset(seed=0)
        play(runner, 5)
        runner.episodes()
        state = runner.snapshot()
        expected, counted = play(runner, 12), runner.episodes()
        assert expected[3][3].any() or expected[1][3].any()  # the time limit's count is part of the state
        runner.restore(state)
        found, again = play(runner, 12), runner.episodes()
        assert runner.restarted_envs == 0
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one[0], other[0])
            np.testing.assert_array_equal(one[3], other[3])
        assert (again.count, again.return_mean) == (counted.count, counted.return_mean)
        with pytest.raises(ValueError, match="no snapshot"):
            runner.restore(state[:-1])


def test_other_envs_start_their_next_episodes_from_keyed_seeds() -> None:
    with make("gymnasium:CartPole-v1", 2, num_workers=1) as runner:
        runner.reset(seed=0)
        play(runner, 3)
        state = runner.snapshot()
        one, _ = runner.restore(state)
        play(runner, 3)
        two, _ = runner.restore(state)
        assert runner.restarted_envs == 2
        np.testing.assert_array_equal(one, two)


def test_a_callable_and_its_options_make_envs() -> None:
    length = 4
    with make(lambda **options: Bad(length=length, **options), 2, options={"chance": 0.0}) as runner:
        runner.reset(seed=0)
        ends = [runner.step([0, 0])[2].all() for _ in range(4)]
        assert ends == [False, False, False, True]


def test_disabled_autoreset_wants_a_reset_of_what_ended() -> None:
    with make(lambda: Bad(length=2), 2, num_workers=0, autoreset_mode="disabled") as runner:
        runner.reset(seed=0)
        runner.step([0, 0])
        runner.step([0, 0])
        with pytest.raises(RuntimeError, match="autoreset is disabled"):
            runner.step([0, 0])
        runner.reset(options={"reset_mask": np.array([True, True])})
        runner.step([0, 0])


@pytest.mark.parametrize(
    ("actions", "error", "words"),
    [
        ([0, len(BAD)], ValueError, "row 1 is 12: expected 0 to 11"),
        ([0.0, 1.0], TypeError, "dtype float64"),
        ([0], ValueError, "shape"),
    ],
)
def test_bad_actions_are_named_before_any_env_moves(actions: Any, error: type[Exception], words: str) -> None:
    with make(Bad, 2, num_workers=0) as runner:
        runner.reset(seed=0)
        with pytest.raises(error, match=words):
            runner.step(actions)
        assert runner.step([0, 0])[0][0, 0] == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_hybrid_actions_come_as_rows_or_as_a_tuple_of_choices_and_real_numbers(workers: int) -> None:
    with make("tests.envs.hybrid_envs:Archery", 3, num_workers=workers, autoreset_mode="same_step") as runner:
        choices, reals = runner.single_action_space.spaces  # type: ignore[attr-defined]
        assert choices.nvec.tolist() == [2, 3]
        assert (reals.low.tolist(), reals.high.tolist()) == ([-REACH], [REACH])
        obs, _ = runner.reset(seed=0)
        lanes, positions = obs[:, :3].argmax(axis=1), obs[:, 3]
        best = np.array([1.0, 0.5, 0.0])
        rows = np.stack([np.zeros(3), lanes, positions * REACH * best], axis=1).astype(np.float32)
        _, reward, *_ = runner.step(rows)
        np.testing.assert_allclose(reward, 1 - np.abs(positions * (1 - best)), atol=1e-5)
        obs, _ = runner.reset(seed=0)
        taken = (rows[:, :2].astype(np.int64), rows[:, 2:])
        np.testing.assert_allclose(runner.step(taken)[1], reward)
        runner.reset(seed=0)
        runner.step(runner.action_space.sample())
        # Beyond the bounds is at the bounds.
        runner.reset(seed=0)
        _, clipped, *_ = runner.step(np.stack([np.zeros(3), lanes, np.full(3, 1e9)], axis=1))
        np.testing.assert_allclose(clipped, positions, atol=1e-5)
        assert runner.faults().count == 0


@pytest.mark.parametrize(
    ("actions", "error", "words"),
    [
        ([[0, 3, 0.0]], ValueError, r"row 0 is \[0 3\]: expected 0 to \[1, 2\]"),
        ([[0, 0.5, 0.0]], ValueError, r"choices of row 0 are \[0. +0.5\]: expected whole numbers"),
        ([[0, 1, np.nan]], ValueError, "row 0 is .*: expected a finite number"),
        ([[0, 1]], ValueError, r"shape \[1, 2\]: expected \[1, 3\]"),
        (([[0, 1]], [[0.0, 0.0]]), ValueError, "expected 2 choices and 1 real numbers for each row"),
        (([[0.0, 1.0]], [[0.0]]), TypeError, "choices of the actions have dtype float64"),
        (([[0, 1]],), ValueError, r"a tuple of 1: expected \(choices, real numbers\)"),
        (([[0, 1]], [["far"]]), TypeError, "dtype"),
    ],
)
def test_bad_hybrid_actions_are_named(actions: Any, error: type[Exception], words: str) -> None:
    with make("tests.envs.hybrid_envs:Archery", 1, num_workers=0) as runner:
        runner.reset(seed=0)
        with pytest.raises(error, match=words):
            runner.step(actions)


def test_a_masked_choice_of_a_hybrid_action_is_refused() -> None:
    with make("tests.envs.hybrid_envs:Archery", 1, num_workers=0, options={"masked": True}) as runner:
        _, info = runner.reset(seed=0)
        (mask,) = info["action_mask"]
        used = int(np.flatnonzero(mask[:2] == 0)[0])
        with pytest.raises(ValueError, match="which its mask forbids"):
            runner.step([[used, 1, 0.0]])
        runner.step([[1 - used, 1, 0.0]])


def test_serial_exceptions_come_through() -> None:
    with make(Bad, 1, num_workers=0) as runner:
        runner.reset(seed=0)
        with pytest.raises(ZeroDivisionError, match="divided by zero"):
            runner.step([BAD.index("raise")])


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("tests.runners.python_envs:broken", r"there is no level file(.|\n)*in broken"),
        ("tests.runners.python_envs:nothing", "returned int: expected a Gymnasium"),
        ("tests.runners.python_envs:absent", "has no 'absent'"),
        ("no.such.module:env", "there is no module 'no'"),
        ("gymnasium:Absent-v0", "Absent"),
        ("mettagrid:a:b", "needs the package mettagrid: pip install"),
    ],
)
def test_envs_that_cannot_be_made_are_one_clear_error(env: str, words: str) -> None:
    with pytest.raises(EnvError, match=words):
        hotloop.make_vec(env, 4, num_workers=2)


def test_closing_leaves_no_process_and_no_file_behind() -> None:
    files = Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    runner = make(COUNTER, 4, num_workers=2)
    runner.reset(seed=0)
    pids = [worker.pid or 0 for worker in runner.health()]
    runner.close()
    runner.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    del runner  # it keeps the memory that its arrays are views of
    gc.collect()
    assert len(list(files.iterdir())) <= before


def test_keywords_of_the_other_kind_of_env_are_refused() -> None:
    with pytest.raises(ValueError, match="num_threads was given"):
        hotloop.make_vec(COUNTER, num_threads=2)
    with pytest.raises(ValueError, match="num_workers was given"):
        hotloop.make_vec("cartpole", num_workers=2)


def test_steps_go_to_given_arrays_and_come_in_two_parts() -> None:
    with make(COUNTER, 3, num_workers=1, groups_per_worker=2) as runner:
        runner.reset(seed=4)
        expected = play(runner, 2)
        runner.reset(seed=4)
        rng = np.random.default_rng(1)
        first: Any = tuple(np.empty_like(array) for array in expected[0][:4])
        given = runner.step(rng.integers(0, 2, 3), out=first)
        assert all(mine is theirs for mine, theirs in zip(given[:4], first, strict=True))
        runner.step_async(rng.integers(0, 2, 3))
        second = runner.step_wait()
        for found, reports in ((first, expected[0]), (second, expected[1])):
            for mine, theirs in zip(found[:4], reports[:4], strict=True):
                np.testing.assert_array_equal(mine, theirs)
        with pytest.raises(ValueError, match="out: reward has shape"):
            runner.step([0, 0, 0], out=(first[0], first[0], first[2], first[3]))
        with pytest.raises(RuntimeError, match="step_wait needs"):
            runner.step_wait()


def test_state_is_read_and_set_by_field() -> None:
    with make(COUNTER, 3, num_workers=2) as runner:
        runner.reset(seed=0)
        play(runner, 2)
        state = runner.get_state()
        assert state["walk"].shape == (3, 2)
        assert state["elapsed_steps"].tolist() == [2, 2, 2]
        expected = play(runner, 1)[0]
        runner.set_state({"walk": state["walk"]})
        np.testing.assert_array_equal(play(runner, 1)[0][0], expected[0])
        runner.set_state({"walk": np.array([[2.0, 0.25]])}, envs=[1])
        assert runner.get_state()["walk"][1].tolist() == [2.0, 0.25]
        with pytest.raises(ValueError, match="no field 'place'; it has: walk"):
            runner.set_state({"place": [0.0] * 3})
        with pytest.raises(ValueError, match="expected an entry for each of 3 envs"):
            runner.set_state({"walk": [0.0]})
    with make("gymnasium:CartPole-v1", 1, num_workers=0) as plain, pytest.raises(RuntimeError, match="do not offer"):
        plain.get_state()


def test_the_reward_is_weighted() -> None:
    with make(lambda: Bad(length=3), 1, num_workers=0) as runner:
        runner.set_reward_weights({"reward": 0.5})
        runner.reset(seed=0)
        assert [runner.step([0])[1].tolist() for _ in range(3)] == [[0.5]] * 3
        assert runner.reward_weights == {"reward": 0.5}
        assert runner.episodes().return_mean == 1.5
        with pytest.raises(ValueError, match="reward term"):
            runner.set_reward_weights({"speed": 1.0})


def test_workers_are_tied_to_cores() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with make(COUNTER, 2, num_workers=2, limits=Limits(cores=1)) as runner:
        tied = [os.sched_getaffinity(worker.pid or 0) for worker in runner.health()]
        assert tied == [{cores[0]}, {cores[1 % len(cores)]}]
    if Path("/sys/devices/system/node/node0").exists():
        with make(COUNTER, 1, num_workers=1, limits=Limits(numa_node=0)) as runner:
            assert os.sched_getaffinity(runner.health()[0].pid or 0) <= set(cores)
    with pytest.raises(ValueError, match="no such node"):
        make(COUNTER, 1, num_workers=1, limits=Limits(numa_node=999))


@pytest.mark.parametrize("env", [COUNTER, "cartpole"])
def test_a_second_thread_is_refused(env: str) -> None:
    with hotloop.make_vec(env, 50_000 if env == "cartpole" else 2) as runner:
        runner.reset(seed=0)
        said: list[str] = []
        over = threading.Event()

        def step() -> None:
            while not over.is_set():
                try:
                    runner.step(np.zeros(runner.num_envs, np.int64))
                except RuntimeError as error:
                    said.append(str(error))
                    over.set()

        threads = [threading.Thread(target=step) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert said
        assert all("another thread is using this runner" in words for words in said)
