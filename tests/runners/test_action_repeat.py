"""A step that spans several ticks is those ticks made one by one, up to the end of the episode."""

from pathlib import Path

import numpy as np
import pytest

import hotloop
from tests.trajectories import Variant, label

REPEAT = 3
VARIANTS: list[Variant] = [
    ("cartpole", {"max_steps": 40}),
    ("acrobot", {"max_steps": 10}),
    ("pendulum", {"max_steps": 7}),
    ("frozen-lake", {}),
    ("taxi", {"max_steps": 8}),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_a_step_is_its_ticks(variant: Variant) -> None:
    name, options = variant
    count = 40
    repeated = hotloop.make_vec(name, count, options=options, action_repeat=REPEAT, autoreset_mode="disabled")
    single = hotloop.make_vec(name, count, options=options, autoreset_mode="disabled")
    repeated.reset(seed=3)
    single.reset(seed=3)
    repeated.action_space.seed(0)
    ended = 0
    for _ in range(30):
        actions = repeated.action_space.sample()
        obs, reward, terminated, truncated, _ = repeated.step(actions)
        expected = np.zeros(count, np.float32)
        running = np.ones(count, np.bool_)
        state = single.get_state()
        for _ in range(REPEAT):
            _, now, fell, late, _ = single.step(actions)
            expected += np.where(running, now, 0)
            after = single.get_state()
            for key, values in state.items():
                values[running] = after[key][running]
            running &= ~(fell | late)
            # Envs that have ended stand where they ended.
            seen, _ = single.set_state(state)
        np.testing.assert_array_equal(obs, seen)
        np.testing.assert_allclose(reward, expected, rtol=1e-6)
        np.testing.assert_array_equal(terminated | truncated, ~running)
        over = terminated | truncated
        ended += int(over.sum())
        if over.any():
            repeated.reset(options={"reset_mask": over})
            single.reset(options={"reset_mask": over})
    assert ended > 0
    assert repeated.episodes().count == ended


def test_lengths_count_decisions() -> None:
    envs = hotloop.make_vec("mountain-car", 5, options={"max_steps": 10}, action_repeat=4, autoreset_mode="same_step")
    envs.reset(seed=0)
    for _ in range(3):
        _, reward, _, truncated, _ = envs.step(np.ones(5, np.int64))
    assert truncated.all()
    # Four, four, and the two ticks that were left.
    np.testing.assert_array_equal(reward, -2)
    report = envs.episodes()
    assert (report.count, report.length_mean, report.return_mean) == (5, 3, -10)


def test_envs_that_forbid_actions_cannot_repeat_them() -> None:
    with pytest.raises(ValueError, match="action_repeat is 2, but tictactoe forbids some actions"):
        hotloop.make_vec("tictactoe", 2, action_repeat=2)
    with pytest.raises(ValueError, match="action_repeat is 0: expected 1 or more"):
        hotloop.make_vec("cartpole", 2, action_repeat=0)


def test_training_repeats_actions(tmp_path: Path) -> None:
    run = hotloop.train(
        "mountain-car",
        steps=2048,
        config={"runner.action_repeat": 4, "runner.num_envs": 16, "train.until": None},
        home=tmp_path,
    )
    assert hotloop.load(run.path).action_repeat == 4
