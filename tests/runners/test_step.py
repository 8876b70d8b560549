"""Results of `step`: arrays of the right kind that may be kept, or the caller's own."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

import hotloop
from tests.trajectories import VARIANTS, Variant, choose_for, label


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_is_a_gymnasium_vector_env(variant: Variant) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, 6, options=options)
    assert isinstance(envs, VectorEnv)
    assert envs.num_envs == envs.env_count * envs.seats == 6 * envs.seats
    assert envs.observation_space == gymnasium.vector.utils.batch_space(envs.single_observation_space, envs.num_envs)
    assert envs.action_space == gymnasium.vector.utils.batch_space(envs.single_action_space, envs.num_envs)
    assert (envs.render_mode, envs.spec, envs.closed) == (None, None, False)
    assert repr(envs).startswith(f"ThreadRunner({name!r}, num_envs=6")


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**64 - 1), envs=st.integers(1, 40), mode=st.sampled_from(["next_step", "same_step"]))
def test_everything_seen_is_within_its_space(variant: Variant, seed: int, envs: int, mode: str) -> None:
    name, options = variant
    runner = hotloop.make_vec(name, envs, options=options, autoreset_mode=mode)
    obs, info = runner.reset(seed=seed)
    rows = runner.num_envs
    for step in range(40):
        assert obs in runner.observation_space
        assert obs.dtype == runner.observation_space.dtype
        if runner.masked:
            assert info["action_mask"].dtype == np.int8
            # Nobody ever meets a row without a legal choice.
            assert info["action_mask"].any(axis=1).all()
        obs, reward, terminated, truncated, info = runner.step(choose_for(runner, step, info, seed % 1000))
        assert reward.dtype == np.float32
        assert terminated.dtype == truncated.dtype == np.bool_
        assert reward.shape == terminated.shape == truncated.shape == (rows,)
        assert np.isfinite(reward).all()


@pytest.mark.parametrize(
    ("name", "options", "dtype", "shape"),
    [
        ("cartpole", {}, np.float32, (3, 4)),
        ("taxi", {}, np.int64, (3,)),
        ("tag", {"observation": "grid", "seats": 2, "size": 6}, np.uint8, (6, 4, 6, 6)),
    ],
)
def test_observations_of_three_kinds(name: str, options: dict[str, Any], dtype: Any, shape: tuple[int, ...]) -> None:
    obs, _ = hotloop.make_vec(name, 3, options=options).reset(seed=0)
    assert (obs.dtype, obs.shape) == (dtype, shape)
    assert obs.flags.c_contiguous
    assert obs.flags.writeable


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_results_may_be_kept(variant: Variant) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, 4, options=options)
    _, info = envs.reset(seed=0)
    kept: list[tuple[Any, ...]] = []
    copies: list[tuple[Any, ...]] = []
    for step in range(60):
        result = envs.step(choose_for(envs, step, info))
        info = result[4]
        arrays = (*result[:4], *(info[key] for key in sorted(info)))
        kept.append(arrays)
        copies.append(tuple(np.copy(array) for array in arrays))
    for ours, copied in zip(kept, copies, strict=True):
        for a, b in zip(ours, copied, strict=True):
            assert np.array_equal(a, b)


def test_memory_that_nobody_holds_is_used_again() -> None:
    envs = hotloop.make_vec("cartpole", 4)
    envs.reset(seed=0)
    addresses = {envs.step([0, 0, 0, 0])[0].ctypes.data for _ in range(50)}
    assert len(addresses) <= 2
    row = envs.step([0, 0, 0, 0])[0][1]
    before = row.copy()
    for _ in range(20):
        envs.step([0, 0, 0, 0])
    assert np.array_equal(row, before)


def own_arrays(envs: Any) -> tuple[Any, Any, Any, Any]:
    space = envs.observation_space
    rows = envs.num_envs
    shape = space.shape if space.shape else (rows,)
    return np.zeros(shape, space.dtype), np.zeros(rows, np.float32), np.zeros(rows, bool), np.zeros(rows, bool)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_results_go_to_the_callers_arrays(variant: Variant) -> None:
    name, options = variant
    ours = hotloop.make_vec(name, 5, options=options, num_threads=2, num_groups=2, autoreset_mode="same_step")
    plain = hotloop.make_vec(name, 5, options=options, autoreset_mode="same_step")
    _, info = ours.reset(seed=4)
    plain.reset(seed=4)
    out = own_arrays(ours)
    for step in range(100):
        actions = choose_for(ours, step, info)
        expected = plain.step(actions)
        result = ours.step(actions, out=out)
        info = result[4]
        assert all(a is b for a, b in zip(result[:4], out, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(out, expected[:4], strict=True))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda o, r, e, t: (o, r, e), TypeError, "expected .observation, reward, terminated, truncated"),
        (lambda o, r, e, t: [o, r, e, t], TypeError, "tuple"),
        (lambda o, r, e, t: (o[:2], r, e, t), ValueError, r"observation has shape \[2, 4\]: expected \[4, 4\]"),
        (lambda o, r, e, t: (o.astype(np.float64), r, e, t), TypeError, "observation is not an array of f32"),
        (lambda o, r, e, t: (o, r.astype(np.float64), e, t), TypeError, "reward is not an array of f32"),
        (lambda o, r, e, t: (o, r, e.astype(np.int8), t), TypeError, "terminated is not an array of bool"),
        (lambda o, r, e, t: (np.asfortranarray(o), r, e, t), ValueError, "observation must be C-contiguous"),
        (lambda o, r, e, t: (o, r, e, e), ValueError, "the arrays overlap"),
        (lambda o, r, e, t: (o, o.reshape(-1)[12:], e, t), ValueError, "the arrays overlap"),
        (lambda o, r, e, t: (o, r, e, np.broadcast_to(np.bool_(False), 4)), ValueError, "truncated must be"),
    ],
)
def test_arrays_that_cannot_take_results_are_named(change: Any, error: Any, message: str) -> None:
    envs = hotloop.make_vec("cartpole", 4)
    envs.reset(seed=0)
    with pytest.raises(error, match=message):
        envs.step([0, 0, 0, 0], out=change(*own_arrays(envs)))
    after = envs.step([0, 0, 0, 0])
    envs.reset(seed=0)
    assert np.array_equal(after[0], envs.step([0, 0, 0, 0])[0])


@pytest.mark.parametrize("convert", [list, tuple, lambda a: a.astype(np.int32), lambda a: a.astype(np.uint8)])
def test_whole_numbers_of_any_kind_are_choices(convert: Any) -> None:
    envs = hotloop.make_vec("cartpole", 6)
    actions = np.array([0, 1, 1, 0, 1, 0])
    envs.reset(seed=0)
    expected = envs.step(actions)[0]
    envs.reset(seed=0)
    assert np.array_equal(envs.step(convert(actions))[0], expected)
    envs.reset(seed=0)
    assert np.array_equal(envs.step(np.repeat(actions, 2)[::2])[0], expected)


def test_the_order_of_an_actions_memory_does_not_matter() -> None:
    envs = hotloop.make_vec("recall", 4, options={"symbols": 3, "delay": 1})
    envs.reset(seed=0)
    cues = envs.get_state()["cue"].astype(np.int64)
    envs.set_state({"time": np.full(4, 2)})
    assert envs.step(np.asfortranarray(cues))[1].tolist() == [1.0] * 4


def test_continuous_actions_are_clipped_however_large() -> None:
    envs = hotloop.make_vec("pendulum", 4)
    envs.reset(seed=0)
    expected = envs.step(np.array([[2.0], [-2.0], [2.0], [-2.0]], np.float32))[0]
    envs.reset(seed=0)
    assert np.array_equal(envs.step([[2.5], [-1e300], [1e300], [-9.0]])[0], expected)


def test_a_step_in_two_parts_is_a_step() -> None:
    with hotloop.make_vec("cartpole", 6, num_groups=3) as envs:
        envs.reset(seed=0)
        expected = [envs.step([0, 1] * 3) for _ in range(20)]
        envs.reset(seed=0)
        for report in expected:
            envs.step_async([0, 1] * 3)
            for mine, theirs in zip(envs.step_wait()[:4], report[:4], strict=True):
                np.testing.assert_array_equal(mine, theirs)
        with pytest.raises(RuntimeError, match="step_wait needs"):
            envs.step_wait()
        with pytest.raises(ValueError, match="expected 6 of them"):
            envs.step_async([0])
