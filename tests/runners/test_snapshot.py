"""Snapshots carry everything; foreign and damaged ones are refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotloop
from hotloop.runners.base import Runner
from tests.trajectories import VARIANTS, Digest, Variant, choose_for, label

MODES = ["next_step", "same_step", "disabled"]


def step_on(envs: Runner, info: dict[str, Any], steps: int, start: int = 0) -> str:
    """Continue and return the checksum of all observations; reset by hand without autoreset."""
    digest = Digest()
    for step in range(start, start + steps):
        result = envs.step(choose_for(envs, step, info))
        info = result[4]
        digest.add(*result)
        over = result[2] | result[3]
        if envs.metadata["autoreset_mode"].name == "DISABLED" and over.any():
            waiting = over if envs.seats == 1 else ~info["valid"]
            mask = waiting.reshape(-1, envs.seats).all(axis=1)
            if mask.any():
                obs, info = envs.reset(options={"reset_mask": mask})
                digest.add(obs, info)
    return digest.text()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_restored_runners_repeat_the_future(variant: Variant, mode: str) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, 13, options=options, autoreset_mode=mode, num_threads=2, num_groups=3)
    _, info = envs.reset(seed=6)
    if "max_steps" in options or name != "tictactoe":
        # Some envs have options of their own, some wait for theirs.
        envs.configure({"max_steps": 17}, envs=[1, 2, 7])
    step_on(envs, info, 150)
    state = envs.snapshot()
    obs, info = envs.restore(state)
    assert envs.snapshot() == state
    expected = step_on(envs, info, 150, start=150)

    again, info = envs.restore(state)
    assert np.array_equal(again, obs)
    assert step_on(envs, info, 150, start=150) == expected
    for threads, groups in [(1, 1), (3, 13)]:
        other = hotloop.make_vec(name, 13, options=options, autoreset_mode=mode, num_threads=threads, num_groups=groups)
        seen, info = other.restore(state)
        assert np.array_equal(seen, obs)
        assert step_on(other, info, 150, start=150) == expected


def test_pending_options_policies_and_weights_travel() -> None:
    envs = hotloop.make_vec("tag", 3, options={"seats": 3})
    envs.reset(seed=0)
    envs.configure({"max_steps": 2}, envs=[1])
    envs.set_policies(np.arange(9).reshape(3, 3))
    envs.set_reward_weights({"survive": 5.0})
    other = hotloop.make_vec("tag", 3, options={"seats": 3})
    other.restore(envs.snapshot())
    assert other.reward_weights["survive"] == 5.0
    _, info = other.reset()
    assert info["policy"].tolist() == list(range(9))
    other.step([0] * 9)
    assert other.step([0] * 9)[3].reshape(3, 3).any(axis=1).tolist() == [False, True, False]


def test_a_restored_runner_still_checks_actions() -> None:
    envs = hotloop.make_vec("cartpole", 3)
    envs.reset(seed=0)
    fresh = hotloop.make_vec("cartpole", 3)
    fresh.restore(envs.snapshot())
    with pytest.raises(ValueError, match="the action of row 1 is 7"):
        fresh.step([0, 7, 0])
    fresh.step([0, 1, 0])


def test_foreign_snapshots_are_refused() -> None:
    envs = hotloop.make_vec("cartpole", 3)
    envs.reset(seed=0)
    before = envs.snapshot()

    def of(name: str, count: int = 3, **keywords: Any) -> bytes:
        runner = hotloop.make_vec(name, count, **keywords)
        runner.reset(seed=0)
        return runner.snapshot()

    cases = [
        (b"", "not a snapshot of a hotloop runner"),
        (b"PK\3\4" * 100, "not a snapshot of a hotloop runner"),
        (of("acrobot"), 'the snapshot is of "acrobot", this runner plays "cartpole"'),
        (of("cartpole", 4), "the snapshot has 4 envs, this runner 3"),
        (of("cartpole", autoreset_mode="same_step"), "taken in another autoreset mode"),
    ]
    for state, message in cases:
        with pytest.raises(ValueError, match=message):
            envs.restore(state)
        assert envs.snapshot() == before
    with pytest.raises(TypeError, match="bytes"):
        envs.restore("text")  # type: ignore[arg-type]
    lake = hotloop.make_vec("frozen-lake", 3, options={"map": "8x8"})
    with pytest.raises(ValueError, match="with other options that fix its spaces"):
        lake.restore(of("frozen-lake"))
    with pytest.raises(RuntimeError, match="needs a reset first"):
        lake.snapshot()
    lake.reset()


@pytest.mark.parametrize("variant", [("cartpole", {}), ("tag", {}), ("taxi", {})], ids=label)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_snapshots_are_refused_and_change_nothing(variant: Variant, data: st.DataObject) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, 2, options=options)
    envs.reset(seed=1)
    state = envs.snapshot()
    _, info = envs.restore(state)
    envs.step(choose_for(envs, 0, info))
    before = envs.snapshot()
    place = data.draw(st.integers(0, len(state) - 1))
    damaged = data.draw(
        st.one_of(
            st.just(state[:place]),
            st.just(state + b"\0"),
            st.integers(1, 255).map(lambda flip: state[:place] + bytes([state[place] ^ flip]) + state[place + 1 :]),
        )
    )
    with pytest.raises(ValueError, match="snapshot"):
        envs.restore(damaged)
    assert envs.snapshot() == before


def test_state_by_field_is_read_and_written() -> None:
    envs = hotloop.make_vec("cartpole", 5, num_groups=2)
    obs, _ = envs.reset(seed=0)
    state = envs.get_state()
    assert state.keys() == {"x", "x_dot", "theta", "theta_dot", "elapsed_steps"}
    assert np.array_equal(np.stack([state[name] for name in ("x", "x_dot", "theta", "theta_dot")], axis=1), obs)
    seen, _ = envs.set_state({"theta": [0.1, -0.1]}, envs=[4, 1])
    assert seen[:, 2].tolist() == [obs[0, 2], np.float32(-0.1), obs[2, 2], obs[3, 2], np.float32(0.1)]
    seen, _ = envs.set_state(state)
    assert np.array_equal(seen, obs)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_state_by_field_holds_all_that_is_seen(variant: Variant) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, 6, options=options)
    _, info = envs.reset(seed=0)
    for step in range(3):
        info = envs.step(choose_for(envs, step, info))[4]
    state = envs.get_state()
    obs, info = envs.set_state({})
    other = hotloop.make_vec(name, 6, options=options)
    other.reset(seed=1)
    seen, report = other.set_state(state)
    assert np.array_equal(seen, obs)
    if "action_mask" in info and envs.seats == 1:
        assert np.array_equal(report["action_mask"], info["action_mask"])


def test_an_env_that_was_over_plays_on_from_a_state() -> None:
    envs = hotloop.make_vec("frozen-lake", 2, options={"slippery": False, "max_steps": 5})
    envs.reset(seed=0)
    envs.set_state({"state": [14, 0]})
    assert envs.step([2, 2])[2].tolist() == [True, False]
    envs.set_state({"state": [13], "elapsed_steps": [3]}, envs=[0])
    obs, reward, terminated, truncated, _ = envs.step([2, 2])
    assert (obs.tolist(), terminated.tolist(), truncated.tolist()) == ([14, 2], [False, False], [False, False])
    obs, reward, terminated, truncated, _ = envs.step([0, 2])
    assert (obs[0], reward[0], terminated[0], truncated[0]) == (13, 0.0, False, True)
