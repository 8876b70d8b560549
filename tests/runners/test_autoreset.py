"""The three autoreset modes are Gymnasium's: step by step equal to its SyncVectorEnv over the same envs."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

import hotloop
from hotloop.integrations.gymnasium import NativeEnv
from tests.trajectories import ONE_SEAT, VARIANTS, Variant, choose_for, label

ENVS = 5
SEEDS = [10, 11, 12, 13, 14]
MODES = list(AutoresetMode)


def same(ours: Any, theirs: Any, where: str) -> None:
    """Equal keys, shapes and values, all the way down."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key in theirs:
            same(ours[key], theirs[key], f"{where} {key}")
    elif isinstance(theirs, np.ndarray) and theirs.dtype == object:
        assert ours.dtype == object, where
        for a, b in zip(ours, theirs, strict=True):
            assert (a is None) == (b is None), where
            if b is not None:
                assert np.array_equal(a, b), where
    else:
        assert np.array_equal(ours, theirs), where


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("variant", ONE_SEAT, ids=label)
def test_equal_to_gymnasiums_sync_vector_env(variant: Variant, mode: AutoresetMode) -> None:
    name, options = variant
    infos = next(env.infos for env in hotloop.list_envs() if env.name == name)
    ours = hotloop.make_vec(name, ENVS, options=options, autoreset_mode=mode, infos=infos, num_threads=2, num_groups=2)
    theirs = SyncVectorEnv([lambda: NativeEnv(name, **options)] * ENVS, autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"]
    obs, info = ours.reset(seed=SEEDS)
    same((obs), theirs.reset(seed=SEEDS)[0], "reset")  # type: ignore[arg-type]
    endings = 0
    for step in range(400):
        actions = choose_for(ours, step, info)
        obs, reward, terminated, truncated, info = ours.step(actions)
        their = theirs.step(actions)
        for what, a, b in zip(
            ("obs", "reward", "terminated", "truncated"), (obs, reward, terminated, truncated), their, strict=False
        ):
            same(a, b, f"{what} at step {step}")
        same(info, their[4], f"info at step {step}")
        done = terminated | truncated
        endings += done.sum()
        if mode is AutoresetMode.DISABLED and done.any():
            obs, info = ours.reset(options={"reset_mask": done})
            same(obs, theirs.reset(options={"reset_mask": done})[0], f"reset after step {step}")
    assert endings > 3


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**64 - 1), envs=st.integers(1, 40))
def test_next_step_ignores_the_action_after_an_end(variant: Variant, seed: int, envs: int) -> None:
    name, options = variant
    runner = hotloop.make_vec(name, envs, options=options)
    _, info = runner.reset(seed=seed)
    over = np.zeros(runner.num_envs, bool)
    for step in range(60):
        actions = choose_for(runner, step, info)
        if not runner.single_action_space.shape:
            actions[over] = 10**9
        _, reward, terminated, truncated, info = runner.step(actions)
        assert not (terminated | truncated | (reward != 0))[over].any()
        ended = terminated | truncated
        if runner.seats == 1:
            over = ended
        else:
            # An env is over when no seat of it decides any more.
            over = np.repeat(~info["valid"].reshape(-1, runner.seats).any(axis=1), runner.seats)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**64 - 1), envs=st.integers(1, 40))
def test_same_step_keeps_a_final_observation_of_exactly_the_rows_that_ended(
    variant: Variant, seed: int, envs: int
) -> None:
    name, options = variant
    runner = hotloop.make_vec(name, envs, options=options, autoreset_mode="same_step")
    _, info = runner.reset(seed=seed)
    for step in range(60):
        obs, _, terminated, truncated, info = runner.step(choose_for(runner, step, info))
        assert obs in runner.observation_space
        ended = terminated | truncated
        kept = info.get("_final_obs", np.zeros(runner.num_envs, bool))
        assert not (kept & ~ended).any()
        if runner.seats == 1:
            assert np.array_equal(kept, ended)
            valid = kept
        else:
            # A seat that is caught while others play on has its last look in the ordinary observation.
            valid = kept[ended]
            assert info["valid"].reshape(-1, runner.seats).any(axis=1).all()
        assert valid.sum() == (0 if "final_obs" not in info else sum(item is not None for item in info["final_obs"]))
        for row in np.flatnonzero(kept):
            assert info["final_obs"][row] in runner.single_observation_space


def test_disabled_names_the_env_that_waits_for_a_reset() -> None:
    envs = hotloop.make_vec("cartpole", 3, autoreset_mode="disabled", options={"max_steps": 4})
    envs.reset(seed=0)
    envs.set_state({"elapsed_steps": [3]}, envs=[1])
    assert envs.step([0, 0, 0])[3].tolist() == [False, True, False]
    with pytest.raises(RuntimeError, match="env 1 is over and autoreset is disabled"):
        envs.step([0, 0, 0])
    obs, _ = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert obs.shape == (3, 4)
    assert envs.step([0, 0, 0])[3].tolist() == [False, False, False]


@pytest.mark.parametrize("mode", ["next_step", "NextStep", AutoresetMode.NEXT_STEP])
def test_modes_go_by_several_names(mode: Any) -> None:
    envs = hotloop.make_vec("cartpole", autoreset_mode=mode)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert gymnasium.vector.AutoresetMode.NEXT_STEP is envs.metadata["autoreset_mode"]


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="autoreset_mode is 'later': expected one of next_step, same_step, disabled"):
        hotloop.make_vec("cartpole", autoreset_mode="later")
