"""Mistakes raise, naming what and where; nothing moves, and the runner stays usable."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hotloop
from hotloop.runners.base import Runner
from tests.trajectories import VARIANTS, Variant, choose_for, label

DISCRETE = [variant for variant in VARIANTS if variant[0] not in ("pendulum", "recall")]
MASKED = [variant for variant in VARIANTS if variant[0] in ("tag", "tictactoe")]


def unharmed(envs: Runner, mistake: Callable[[], Any], error: Any, message: str) -> None:
    """The mistake raises; afterwards the envs are where they were, to the last bit, and step on."""
    before = envs.snapshot()
    with pytest.raises(error, match=message):
        mistake()
    assert envs.snapshot() == before
    _, info = envs.restore(before)
    envs.step(choose_for(envs, 0, info))


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"num_envs": 0}, ValueError, "num_envs is 0: expected 1 or more"),
        ({"num_envs": -3}, ValueError, "num_envs is -3: expected 1 or more"),
        ({"num_envs": 2.5}, TypeError, "num_envs"),
        ({"num_envs": 2**40}, ValueError, "num_envs is"),
        ({"num_threads": 0}, ValueError, "num_threads is 0: expected 1 or more"),
        ({"num_threads": 5000}, ValueError, "num_threads is 5000: expected 1 to 4096"),
        ({"num_groups": 0}, ValueError, "num_groups is 0: expected 1 or more"),
        ({"num_groups": 9}, ValueError, r"num_groups is 9: expected 1 to num_envs \(8\)"),
        ({"groups_per_batch": 0}, ValueError, "groups_per_batch is 0: expected 1 to 2"),
        ({"groups_per_batch": 3}, ValueError, "groups_per_batch is 3: expected 1 to 2"),
        ({"first_env": -1}, ValueError, "first_env is -1: expected 0 or more"),
        ({"infos": ["speed"]}, ValueError, 'cartpole has no info array "speed"; it has: none'),
        ({"infos": "speed"}, TypeError, "infos is 'speed': expected a list of names"),
        ({"options": {"gravty": 1.0}}, ValueError, 'no option "gravty"; did you mean "gravity"'),
        ({"options": {"gravity": "low"}}, ValueError, 'option "gravity" of cartpole is "low": expected a number'),
        ({"options": {"gravity": -1.0}}, ValueError, "expected 0 to 1000"),
        ({"options": {"gravity": float("nan")}}, ValueError, "expected 0 to 1000"),
        ({"options": {"max_steps": 1.5}}, ValueError, "expected a whole number"),
        ({"options": {"max_steps": -1}}, ValueError, "expected 0 to"),
        ({"options": {"gravity": None}}, TypeError, 'option "gravity" is None'),
        ({"options": {3: 1.0}}, TypeError, "option names are text, not 3"),
    ],
)
def test_a_runner_that_cannot_be_made_says_why(keywords: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        hotloop.make_vec("cartpole", **{"num_envs": 8, "num_groups": 2, **keywords})


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match='options of tag: option "players" is 5: expected 2 to 3'):
        hotloop.make_vec("tag", options={"seats": 3, "players": 5})
    with pytest.raises(ValueError, match="a start S and a goal G are needed"):
        hotloop.make_vec("frozen-lake", options={"map": "FF/FF"})


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        ([0, 1, 0], ValueError, r"the actions have shape \[3\]: expected \[4\]"),
        ([[0], [1], [0], [1]], ValueError, r"the actions have shape \[4, 1\]: expected \[4\]"),
        (0, ValueError, r"the actions have shape \[\]: expected \[4\]"),
        ([0.0, 1.0, 0.0, 1.0], TypeError, "the actions have dtype float64: expected whole numbers"),
        ([True, False, True, False], TypeError, "the actions have dtype bool: expected whole numbers"),
        (["0", "1", "0", "1"], TypeError, "the actions have dtype <U1: expected whole numbers"),
        (None, TypeError, "the actions have dtype object: expected whole numbers"),
        ([0, 1, 2, 0], ValueError, "the action of row 2 is 2: expected 0 to 1"),
        ([0, -1, 0, 0], ValueError, "the action of row 1 is -1: expected 0 to 1"),
        ([0, 0, 0, 2**40], ValueError, "the action of row 3 is 1099511627776: expected 0 to 1"),
        # Cut to 32 bits this would be legal.
        ([0, 0, 0, 2**32], ValueError, "the action of row 3 is 4294967296: expected 0 to 1"),
    ],
)
@pytest.mark.parametrize("groups", [1, 4])
def test_bad_choices_are_named(actions: Any, error: Any, message: str, groups: int) -> None:
    envs = hotloop.make_vec("cartpole", 4, num_threads=2, num_groups=groups)
    envs.reset(seed=0)
    unharmed(envs, lambda: envs.step(actions), error, message)


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        ([[0.0], [np.nan], [0.0]], ValueError, "the action of row 1 is NaN: expected a finite number"),
        ([[0.0], [0.0], [-np.inf]], ValueError, "the action of row 2 is -inf: expected a finite number"),
        (np.array([[0], [np.inf], [0]], np.float32), ValueError, "the action of row 1 is inf"),
        ([0.0, 0.0, 0.0], ValueError, r"shape \[3\]: expected \[3, 1\]"),
        ([[0j], [0j], [0j]], TypeError, "dtype complex128: expected numbers"),
    ],
)
def test_bad_continuous_actions_are_named(actions: Any, error: Any, message: str) -> None:
    envs = hotloop.make_vec("pendulum", 3, num_groups=3, num_threads=2)
    envs.reset(seed=0)
    unharmed(envs, lambda: envs.step(actions), error, message)


def test_a_bad_amount_behind_one_that_does_not_matter_is_found() -> None:
    envs = hotloop.make_vec("pendulum", 2, options={"max_steps": 1})
    envs.reset(seed=0)
    envs.set_state({"elapsed_steps": [0, -0]})
    assert envs.step([[0.0], [0.0]])[3].all()
    envs.step([[np.nan], [np.inf]])  # both are reset, their actions are ignored
    unharmed(envs, lambda: envs.step([[0.0], [np.nan]]), ValueError, "the action of row 1 is NaN")


def test_bad_entries_of_several_choices_are_named() -> None:
    envs = hotloop.make_vec("recall", 2, options={"symbols": 2, "cues": 3})
    envs.reset(seed=0)
    unharmed(
        envs, lambda: envs.step([[0, 1], [2, 3]]), ValueError, "entry 1 of the action of row 1 is 3: expected 0 to 2"
    )
    unharmed(envs, lambda: envs.step([0, 1]), ValueError, r"shape \[2\]: expected \[2, 2\]")


@pytest.mark.parametrize("variant", DISCRETE, ids=label)
@settings(max_examples=15)
@given(data=st.data())
def test_actions_out_of_range_are_named_with_their_row(variant: Variant, data: st.DataObject) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, 6, options=options, num_groups=data.draw(st.integers(1, 6)), num_threads=2)
    _, info = envs.reset(seed=data.draw(st.integers(0, 1000)))
    deciding = np.flatnonzero(info["valid"]) if envs.seats > 1 else np.arange(envs.num_envs)
    row = data.draw(st.sampled_from(deciding.tolist()))
    n = int(envs.single_action_space.n)  # type: ignore[attr-defined]
    bad = data.draw(st.one_of(st.integers(-(2**63), -1), st.integers(n, 2**63 - 1)))
    actions = choose_for(envs, 0, info)
    actions[row] = bad
    unharmed(envs, lambda: envs.step(actions), ValueError, f"the action of row {row} is {bad}: expected 0 to {n - 1}")


@pytest.mark.parametrize("variant", MASKED, ids=label)
@settings(max_examples=15)
@given(data=st.data())
def test_legal_actions_are_taken_and_masked_ones_named_with_their_row(variant: Variant, data: st.DataObject) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, 5, options=options, num_groups=data.draw(st.integers(1, 5)), num_threads=2)
    _, info = envs.reset(seed=data.draw(st.integers(0, 1000)))
    for step in range(data.draw(st.integers(0, 4))):
        info = envs.step(choose_for(envs, step, info))[4]
    mask = info["action_mask"].astype(bool)
    state = envs.snapshot()
    # Every legal choice of every row is tried, from the same state each time.
    for choice in range(mask.shape[1]):
        actions = np.where(mask[:, choice], choice, choose_for(envs, 0, info))
        envs.step(actions)
        _, info = envs.restore(state)
    over = np.zeros(envs.num_envs, bool) if envs.seats == 1 else ~info["valid"]
    illegal = np.argwhere(~mask & ~over[:, None])
    assume(len(illegal) and (envs.seats > 1 or envs.get_state()["elapsed_steps"].min() > 0))
    row, choice = data.draw(st.sampled_from(illegal.tolist()))
    actions = choose_for(envs, 0, info)
    actions[row] = choice
    unharmed(
        envs, lambda: envs.step(actions), ValueError, f"the action of row {row} is {choice}, which its mask forbids"
    )


def test_calls_out_of_order_are_refused() -> None:
    envs = hotloop.make_vec("cartpole", 4, num_groups=2)
    for call in (lambda: envs.step([0] * 4), lambda: envs.send([0, 0], 0), envs.snapshot, envs.get_state):
        with pytest.raises(RuntimeError, match="needs a reset first"):
            call()
    with pytest.raises(RuntimeError, match="nothing to receive: no group is in flight"):
        envs.recv()
    envs.reset(seed=0)
    envs.send([0, 0], 1)
    refused: list[Callable[[], Any]] = [
        lambda: envs.step([0] * 4),
        envs.reset,
        envs.snapshot,
        lambda: envs.restore(b""),
        envs.get_state,
        lambda: envs.set_state({"x": [0.0] * 4}),
        lambda: envs.configure({"max_steps": 3}),
        lambda: envs.set_policies([[0]] * 4),
        lambda: envs.set_reward_weights({"reward": 2.0}),
        lambda: envs.rollout(3).begin(),
        lambda: envs.rollout(3).final,
    ]
    for call in refused:
        with pytest.raises(RuntimeError, match="at rest: 1 in flight, receive them first"):
            call()
    with pytest.raises(RuntimeError, match="group 1 is in flight: receive it before sending it again"):
        envs.send([0, 0], 1)
    assert envs.recv().groups == (1,)
    envs.step([0] * 4)


@pytest.mark.parametrize("group", [-1, 2, 10**6])
def test_groups_that_do_not_exist_are_named(group: int) -> None:
    envs = hotloop.make_vec("cartpole", 4, num_groups=2)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=f"group is {group}: expected 0 to 1"):
        envs.send([0, 0], group)
    with pytest.raises(ValueError, match=f"group is {group}: expected 0 to 1"):
        envs.group_rows(group)
    with pytest.raises(ValueError, match=r"shape \[3\]: expected \[2\]"):
        envs.send([0, 0, 0], 0)
    envs.step([0] * 4)


def test_states_that_cannot_be_are_refused() -> None:
    envs = hotloop.make_vec("taxi", 3)
    envs.reset(seed=0)
    cases: list[tuple[dict[str, Any], Any, str]] = [
        ({"speed": [0, 0, 0]}, None, 'no field "speed"; the state has state, prob, fickle, elapsed_steps'),
        ({"state": [0, 1]}, None, r'field "state" has shape \[2\]: expected \[3\]'),
        ({"state": [0, 1, 500]}, None, "the state of env 2 is impossible: state is 500: expected 0 to 499"),
        ({"state": [-1]}, [1], "the state of env 1 is impossible"),
        ({"state": [0.5, 1, 2]}, None, 'field "state" takes int32'),
        ({"state": [2**40, 1, 2]}, None, 'field "state" takes int32'),
        ({"elapsed_steps": [0, 0, -1]}, None, "elapsed_steps is -1"),
        ({"state": [1]}, [3], "envs names 3: expected 0 to 2"),
        ({"state": [1]}, [-1], "envs names -1: expected 0 to 2"),
        ({"state": [1, 2]}, [1, 1], "env 1 is named twice"),
    ]
    for fields, where, message in cases:
        unharmed(envs, lambda fields=fields, where=where: envs.set_state(fields, where), ValueError, message)  # type: ignore[misc]
    unharmed(envs, lambda: envs.set_state({"state": [1]}, [True]), TypeError, "expected a list of whole numbers")
    numbers = hotloop.make_vec("cartpole", 2)
    numbers.reset(seed=0)
    unharmed(numbers, lambda: numbers.set_state({"x": [0.0, np.nan]}), ValueError, "env 1 is impossible: x is NaN")


def test_tables_of_policies_are_checked() -> None:
    envs = hotloop.make_vec("tag", 2)
    envs.reset(seed=0)
    unharmed(envs, lambda: envs.set_policies([0, 1]), ValueError, r"shape \(2,\): expected \(2, 4\)")
    unharmed(envs, lambda: envs.set_policies(np.zeros((2, 4))), TypeError, "dtype float64: expected whole numbers")
    table = np.zeros((2, 4), int)
    table[1, 2] = -1
    unharmed(envs, lambda: envs.set_policies(table), ValueError, "the policy of env 1, seat 2 is -1")
    unharmed(envs, lambda: envs.set_policies(table + 2**31), ValueError, "the policy of env 0, seat 0 is 2147483648")


def test_reward_weights_are_checked() -> None:
    envs = hotloop.make_vec("tag", 2)
    envs.reset(seed=0)
    unharmed(
        envs,
        lambda: envs.set_reward_weights({"caugt": 1.0}),
        ValueError,
        "no reward term 'caugt'. Did you mean 'caught'",
    )
    unharmed(envs, lambda: envs.set_reward_weights({"catch": np.nan}), ValueError, 'the weight of "catch" is NaN')
    assert envs.reward_weights == {"catch": 1.0, "caught": 1.0, "survive": 1.0}


def test_a_closed_runner_says_so() -> None:
    envs = hotloop.make_vec("cartpole", 2)
    envs.reset(seed=0)
    envs.close()
    envs.close()
    assert envs.closed
    calls: list[Callable[[], Any]] = [
        envs.reset,
        lambda: envs.step([0, 0]),
        lambda: envs.send([0, 0], 0),
        envs.recv,
        envs.snapshot,
        lambda: envs.restore(b""),
        envs.get_state,
        lambda: envs.set_state({"x": [0.0, 0.0]}),
        envs.episodes,
        envs.faults,
        lambda: envs.configure({"max_steps": 3}),
        lambda: envs.reward_weights,
        lambda: envs.rollout(4),
    ]
    for call in calls:
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="this runner is closed"):
            call()
    assert repr(envs)


def test_results_outlive_their_runner() -> None:
    with hotloop.make_vec("cartpole", 3) as envs:
        obs, _ = envs.reset(seed=0)
        expected = obs.copy()
    assert envs.closed
    del envs
    assert np.array_equal(obs, expected)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_and_pickles_are_refused(duplicate: Callable[[Any], Any]) -> None:
    envs = hotloop.make_vec("cartpole")
    with pytest.raises(TypeError, match="cannot be copied or pickled: make another one and restore a snapshot"):
        duplicate(envs)
