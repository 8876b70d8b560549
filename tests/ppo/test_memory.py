"""Policies that remember: LSTM and GRU layers between dense layers and outputs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotloop
from hotloop import _core
from hotloop.policies.protocol import ActRequest
from hotloop.ppo.collector import RunnerCollector
from tests.ppo.reference import SETTINGS
from tests.ppo.test_gradients import TASKS, compare, filled, largest_byte, sets_of

GATES = {"lstm": 4, "gru": 3}


def learner(
    env: str = "cartpole", *, rows: int = 8, horizon: int = 4, seed: int = 0, **policy: Any
) -> _core.PpoLearner:
    return _core.PpoLearner(env, None, policy, rows=rows, horizon=horizon, seed=seed)


@pytest.mark.parametrize("memory", ["lstm", "gru"])
@pytest.mark.parametrize("shared", [True, False])
def test_arrays_have_torchs_shapes_and_order(memory: str, shared: bool) -> None:
    gates = GATES[memory]
    arrays = learner(memory=memory, memory_size=20, memory_layers=2, hidden=[24], shared=shared).arrays()
    for prefix in ["memory"] if shared else ["policy.memory", "value.memory"]:
        for layer, inputs in enumerate([24, 20]):
            name = f"{prefix}.{layer}"
            assert arrays[f"{name}.input.weight"].shape == (gates * 20, inputs)
            assert arrays[f"{name}.hidden.weight"].shape == (gates * 20, 20)
            assert arrays[f"{name}.bias"].shape == (gates * 20,)
            assert (f"{name}.hidden.bias" in arrays) == (memory == "gru")
    heads = "heads" if shared else "policy.head"
    assert arrays[f"{heads}.weight"].shape == (3 if shared else 2, 20)


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_first_weights_are_orthogonal_gate_by_gate_and_keep_what_is_remembered(memory: str) -> None:
    arrays = learner(memory=memory, memory_size=20, hidden=[24], seed=3).arrays()
    for name, side in (("memory.0.hidden.weight", 20), ("memory.0.input.weight", 24)):
        for block in arrays[name].reshape(GATES[memory], 20, side):
            np.testing.assert_allclose(block @ block.T, np.eye(20), atol=1e-6)
    bias = arrays["memory.0.bias"].reshape(GATES[memory], 20)
    assert (bias[1] == 1.0).all()
    assert np.count_nonzero(bias) == 20
    again = learner(memory=memory, memory_size=20, hidden=[24], seed=4).arrays()
    assert not np.array_equal(again["memory.0.hidden.weight"], arrays["memory.0.hidden.weight"])


def test_arrays_survive_the_way_to_the_learner_and_back() -> None:
    mine = learner(memory="lstm", memory_size=37, memory_layers=2, hidden=[5])
    draw = np.random.default_rng(0)
    arrays = {name: draw.normal(size=array.shape).astype(np.float32) for name, array in mine.arrays().items()}
    mine.set_arrays(arrays)
    for name, array in mine.arrays().items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ({"memory": "elephant"}, 'memory is "elephant": expected none, lstm or gru'),
        ({"memory": "gru", "memory_size": 0}, "memory_size is 0: expected 1 to 4096"),
        ({"memory": "lstm", "memory_size": 5000}, "memory_size is 5000: expected 1 to 4096"),
        ({"memory": "lstm", "memory_layers": 17}, "memory_layers is 17: expected 1 to 16"),
    ],
)
def test_what_cannot_be_built_is_named(policy: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        learner(**policy)


TASK_NAMES = ["real, choices", "real, continuous", "states by a table, masks", "many numbers, masks", "board, masks"]


@pytest.mark.parametrize("memory", ["lstm", "gru"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("task", TASK_NAMES)
def test_loss_and_gradients_are_those_of_autograd(task: str, shared: bool, memory: str) -> None:
    policy = {"hidden": [19], "memory": memory, "memory_size": 21, "memory_layers": 2, "shared": shared}
    mine, rollout = filled(TASKS[task], policy, envs=11, horizon=12, seed=3, sequence_length=6)
    compare(mine, rollout, "tanh", SETTINGS, largest_byte(TASKS[task]), sets_of(TASKS[task]))


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_gradients_hold_through_64_steps(memory: str) -> None:
    # Few episodes end on the way, so that gradients go all of it.
    policy = {"hidden": [16], "memory": memory, "memory_size": 33}
    mine, rollout = filled(TASKS["real, continuous"], policy, envs=40, horizon=64, seed=7)
    assert not (rollout["terminated"] | rollout["truncated"])[:-1].any()
    compare(mine, rollout, "tanh", SETTINGS, 1, None, within=1e-4)


@settings(max_examples=40, derandomize=True)
@given(
    task=st.sampled_from(TASK_NAMES),
    hidden=st.integers(1, 40),
    memory=st.sampled_from(["lstm", "gru"]),
    size=st.integers(1, 70),
    layers=st.integers(1, 3),
    activation=st.sampled_from(["tanh", "relu", "silu", "gelu"]),
    shared=st.booleans(),
    envs=st.integers(1, 70),
    sequences=st.integers(1, 3),
    length=st.integers(1, 7),
    seed=st.integers(0, 2**32),
)
def test_gradients_hold_for_all_sizes(
    task: str,
    hidden: int,
    memory: str,
    size: int,
    layers: int,
    activation: str,
    shared: bool,
    envs: int,
    sequences: int,
    length: int,
    seed: int,
) -> None:
    policy = {
        "hidden": [hidden],
        "activation": activation,
        "memory": memory,
        "memory_size": size,
        "memory_layers": layers,
        "shared": shared,
    }
    mine, rollout = filled(TASKS[task], policy, envs, sequences * length, seed, sequence_length=length)
    high, sets = largest_byte(TASKS[task]), sets_of(TASKS[task])
    compare(mine, rollout, activation, SETTINGS, high, sets, within=3e-5)


def collected(
    env: str, options: dict[str, Any], memory: str, *, horizon: int = 12, seed: int = 5, **keywords: Any
) -> _core.PpoLearner:
    """A learner whose second rollout is there, so that sequences begin in the middle of episodes."""
    envs = 21
    rows = envs * _core.describe(env, options)["seats"]
    policy = {"hidden": [24], "memory": memory, "memory_size": 20}
    mine = _core.PpoLearner(env, options, policy, rows=rows, horizon=horizon, seed=seed, **keywords)
    pool = _core.Pool(env, envs, num_threads=1, num_groups=2, options=options, autoreset="same_step")
    pool.seed(seed)
    pool.reset()
    for iteration in range(2):
        mine.collect(pool, {**SETTINGS, "iteration": iteration})
    return mine


@pytest.mark.parametrize("memory", ["lstm", "gru"])
@pytest.mark.parametrize(
    ("env", "options"),
    [("cartpole", {"max_steps": 9}), ("pendulum", {}), ("taxi", {"max_steps": 7}), ("tag", {"seats": 3})],
)
def test_the_first_ratio_is_exactly_one(env: str, options: dict[str, Any], memory: str) -> None:
    for length in (12, 4, 1):
        _, result = collected(env, options, memory, sequence_length=length).gradient(SETTINGS)
        assert result["kl"] == 0.0
        assert result["clip_fraction"] == 0.0


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_the_end_of_an_episode_within_a_sequence_is_as_good_as_two_sequences(memory: str) -> None:
    """Rows that all end at step 5: one sequence of 12 with the memory emptied is 6 and 6 that begin with none."""
    whole = collected("cartpole", {}, memory)
    rollout = whole.rollout()
    rollout["terminated"][5] = True
    rollout["memory"][:] = 0.0
    halves = collected("cartpole", {}, memory, sequence_length=6)
    for name, array in halves.rollout().items():
        array[:] = 0.0 if name == "memory" else rollout[name]
    one, two = whole.gradient(SETTINGS), halves.gradient(SETTINGS)
    assert one[1] == pytest.approx(two[1], rel=1e-5, abs=1e-6)
    for name, array in one[0].items():
        np.testing.assert_allclose(array, two[0][name], rtol=1e-4, atol=1e-7, err_msg=name)
    rollout["terminated"][5] = False
    other = whole.gradient(SETTINGS)[0]["memory.0.hidden.weight"]
    assert np.abs(other - one[0]["memory.0.hidden.weight"]).max() > 1e-4


def test_a_row_does_not_depend_on_its_batch_mates() -> None:
    mine = collected("pendulum", {}, "lstm")
    obs = mine.rollout()["obs"][0]
    start = np.random.default_rng(0).normal(size=(len(obs), mine.memory_len)).astype(np.float32)
    together = start.copy()
    actions, _, values = mine.act(ActRequest(obs, deterministic=True, state=together))
    for row in range(len(obs)):
        own = start[row : row + 1].copy()
        action, _, value = mine.act(ActRequest(obs[row : row + 1], deterministic=True, state=own))
        np.testing.assert_array_equal(actions[row], action[0])
        np.testing.assert_array_equal(values[row], value[0])
        np.testing.assert_array_equal(together[row], own[0])


def test_rows_that_do_not_decide_keep_their_memory() -> None:
    mine = collected("cartpole", {}, "gru")
    memory = np.full((4, mine.memory_len), 0.5, np.float32)
    mine.act(
        ActRequest(
            np.ones((4, 4), np.float32), deterministic=True, state=memory, valid=np.array([True, False, True, False])
        )
    )
    assert (memory[[1, 3]] == 0.5).all()
    assert (memory[[0, 2]] != 0.5).any(axis=1).all()
    with pytest.raises(ValueError, match=r"state has shape \[4, 3\]: expected \[4, 20\]"):
        mine.act(ActRequest(np.ones((4, 4), np.float32), deterministic=True, state=np.zeros((4, 3), np.float32)))


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_rollouts_remember_within_episodes_and_nothing_beyond_them(memory: str) -> None:
    """Going through the rollout with `act`, forgetting at ends, gives its values, and those of its last sights."""
    mine = collected("cartpole", {"max_steps": 7}, memory, sequence_length=4)
    rollout = mine.rollout()
    numbers = rollout["memory"][0].copy()
    truncated = 0
    for slot in range(12):
        if slot % 4 == 0:
            np.testing.assert_array_equal(numbers, rollout["memory"][slot // 4])
        _, _, values = mine.act(ActRequest(rollout["obs"][slot], deterministic=True, state=numbers))
        np.testing.assert_array_equal(values, rollout["value"][slot])
        ended = rollout["terminated"][slot] | rollout["truncated"][slot]
        truncated += rollout["truncated"][slot].sum()
        numbers[ended] = 0.0
    assert truncated > 10
    np.testing.assert_array_equal(numbers, mine.state()["memory"])
    _, _, values = mine.act(ActRequest(rollout["obs"][12], deterministic=True, state=numbers))
    np.testing.assert_array_equal(values, rollout["value"][12])


@pytest.mark.parametrize("memory", ["lstm", "gru"])
@pytest.mark.parametrize(
    ("env", "options"), [("cartpole", {"max_steps": 9}), ("taxi", {"max_steps": 9}), ("tag", {"seats": 3})]
)
def test_served_rollouts_and_weights_are_those_of_the_native_way(
    env: str, options: dict[str, Any], memory: str
) -> None:
    envs, horizon = 24, 12
    rows = envs * _core.describe(env, options)["seats"]
    policy = {"hidden": [16], "memory": memory, "memory_size": 12}

    def fresh() -> _core.PpoLearner:
        return _core.PpoLearner(env, options, policy, rows=rows, horizon=horizon, sequence_length=6, seed=1)

    native, served = fresh(), fresh()
    pool = _core.Pool(env, envs, num_threads=1, num_groups=3, options=options, autoreset="same_step")
    pool.seed(1)
    pool.reset()
    with hotloop.make_vec(
        env, envs, num_threads=2, num_groups=5, options=options, autoreset_mode="same_step"
    ) as runner:
        server = RunnerCollector(served, runner, *runner.reset(seed=1))
        for iteration in range(3):
            changed = {**SETTINGS, "minibatch_size": 60, "iteration": iteration}
            native.iterate(pool, changed, 1, 1.0)
            server.iterate(changed)
            ours, theirs = native.rollout(), served.rollout()
            for name, array in ours.items():
                where = ours["truncated"] if name == "bootstrap" else ...
                np.testing.assert_array_equal(array[where], theirs[name][where], err_msg=f"{name}, {iteration}")
    for name, array in native.arrays().items():
        np.testing.assert_array_equal(array, served.arrays()[name], err_msg=name)


def test_frozen_policies_have_memories_of_their_own() -> None:
    envs, seats, horizon = 8, 2, 10
    options = {"seats": seats}
    frozen = {"hidden": [8], "memory": "gru", "memory_size": 5}
    mine = _core.PpoLearner(
        "tag", options, {"hidden": [16], "memory": "lstm", "memory_size": 9}, rows=envs * seats, horizon=horizon, seed=0
    )
    other = _core.PpoLearner("tag", options, frozen, rows=1, horizon=1, seed=77)
    mine.set_opponents([(frozen, other.arrays(), {})])
    pool = _core.Pool("tag", envs, num_threads=1, num_groups=2, options=options, autoreset="same_step")
    pool.seed(3)
    pool.set_policies([0, 1] * envs)
    pool.reset()
    mine.collect(pool, SETTINGS)
    rollout = mine.rollout()
    for learner, rows in ((mine, slice(0, None, 2)), (other, slice(1, None, 2))):
        numbers = np.zeros((envs, learner.memory_len), np.float32)
        for slot in range(horizon):
            valid = rollout["valid"][slot, rows].copy()
            obs, mask = rollout["obs"][slot, rows], rollout["mask"][slot, rows].astype(np.int8)
            _, _, values = learner.act(ActRequest(obs, mask, deterministic=True, state=numbers, valid=valid))
            np.testing.assert_array_equal(values, rollout["value"][slot, rows])
            numbers[rollout["terminated"][slot, rows] | rollout["truncated"][slot, rows]] = 0.0
    state = mine.state()
    assert state["memory"].shape == (16, 18)
    assert state["memory.1"].shape == (16, 5)
    assert (state["memory"][1::2] == 0.0).all()
    np.testing.assert_array_equal(state["memory.1"][1::2], numbers)


def test_sequences_must_divide_the_horizon() -> None:
    with pytest.raises(ValueError, match="sequence_length is 5: expected a divisor of the horizon, 12"):
        _core.PpoLearner("cartpole", None, {"memory": "gru"}, rows=2, horizon=12, sequence_length=5, seed=0)
