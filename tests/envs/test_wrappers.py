"""Wrappers that the config's section `wrap` asks for."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop.errors import EnvError


class Walk(gymnasium.Env[Any, int]):
    """Counts its steps, and offers its state."""

    observation_space = spaces.Box(-100, 100, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._count = 0
        self._taken = -1
        return self._seen(), {}

    def _seen(self) -> Any:
        return np.array([self._count, self._taken], np.float32)

    def step(self, action: int) -> Any:
        self._count += 1
        self._taken = int(action)
        return self._seen(), float(self._count), self._count >= 50, False, {}

    def get_state(self) -> dict[str, Any]:
        return {"walk": np.array([self._count, self._taken])}

    def set_state(self, state: dict[str, Any]) -> None:
        self._count, self._taken = state["walk"].tolist()


class Picture(gymnasium.Env[Any, int]):
    """Shows a bright square, in the left half or in the right one."""

    observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._right = False
        return self._seen(), {}

    def _seen(self) -> Any:
        image = np.zeros((8, 8, 3), np.uint8)
        image[:, 4 * self._right : 4 * self._right + 4] = (100, 200, 50)
        return image

    def step(self, action: int) -> Any:
        self._right = not self._right
        return self._seen(), 1.0, False, False, {}


def make(env: Any, **wrap: Any) -> Any:
    runner = hotloop.make_vec(env, num_envs=1, num_workers=0, wrap=wrap)
    return runner, runner.reset(seed=0)[0][0]


def test_stacked_frames_of_a_vector_follow_each_other_and_begin_with_copies() -> None:
    runner, first = make(Walk, frame_stack=3)
    assert runner.single_observation_space.shape == (6,)
    assert first.tolist() == [0, -1] * 3
    runner.step([4])
    assert runner.step([2])[0][0].tolist() == [0, -1, 1, 4, 2, 2]


def test_images_are_grey_resized_and_stacked_as_channels() -> None:
    runner, first = make(Picture, grey_scale=True, resize=[4, 2], frame_stack=2)
    assert runner.single_observation_space == spaces.Box(0, 255, (2, 4, 2), np.uint8)
    bright = round(0.299 * 100 + 0.587 * 200 + 0.114 * 50)
    assert first.tolist() == [[[bright, 0]] * 4] * 2
    assert runner.step([0])[0][0].tolist() == [[[bright, 0]] * 4, [[0, bright]] * 4]


def test_colours_are_joined_along_their_axis() -> None:
    _, first = make(Picture, frame_stack=2)
    assert first.shape == (8, 8, 6)
    assert first[0, 0].tolist() == [100, 200, 50] * 2


def test_actions_are_repeated_and_rewards_summed() -> None:
    runner, _ = make(Walk, frame_skip=4)
    obs, reward, *_ = runner.step([1])
    assert obs[0].tolist() == [4, 1]
    assert reward.tolist() == [1 + 2 + 3 + 4]


def test_the_maximum_of_the_last_two_frames_is_shown() -> None:
    runner, _ = make(Picture, frame_skip=2, max_frames=True)
    assert runner.step([0])[0][0].min(axis=(0, 1)).tolist() == [100, 200, 50]


def test_rewards_are_clipped_and_episodes_truncated() -> None:
    runner, _ = make(Walk, clip_reward=2.5, time_limit=4)
    steps = [runner.step([0]) for _ in range(4)]
    assert [reward[0] for _, reward, *_ in steps] == [1, 2, 2.5, 2.5]
    assert [bool(truncated[0]) for _, _, _, truncated, _ in steps] == [False, False, False, True]


def test_sticky_actions_follow_from_the_seed() -> None:
    def taken(seed: int) -> list[float]:
        runner, _ = make(Walk, sticky_actions=0.5)
        runner.reset(seed=seed)
        return [float(runner.step([i % 5])[0][0, 1]) for i in range(40)]

    own = [float(i % 5) for i in range(40)]
    assert taken(0) == taken(0) != taken(1)
    assert 10 < sum(a != b for a, b in zip(taken(0), own, strict=True)) < 30


def test_no_op_starts_differ() -> None:
    runner = hotloop.make_vec(Walk, num_envs=16, num_workers=0, wrap={"no_op_start": 10})
    counts = runner.reset(seed=0)[0][:, 0]
    assert len(set(counts.tolist())) > 4
    assert counts.max() <= 10


def test_a_snapshot_has_the_state_of_wrappers() -> None:
    wrap = {"frame_stack": 3, "sticky_actions": 0.5, "time_limit": 20}
    with hotloop.make_vec("tests.envs.test_wrappers:Walk", num_envs=2, num_workers=1, wrap=wrap) as runner:
        runner.reset(seed=0)
        for i in range(7):
            runner.step([i % 5, 4 - i % 5])
        state = runner.snapshot()
        steps = [runner.step([i % 5, 4 - i % 5]) for i in range(15)]
        runner.restore(state)
        for i, (obs, reward, _, truncated, _) in enumerate(steps):
            again = runner.step([i % 5, 4 - i % 5])
            np.testing.assert_array_equal(again[0], obs)
            np.testing.assert_array_equal(again[1], reward)
            np.testing.assert_array_equal(again[3], truncated)


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        ({"grey_scale": True}, "wrap.grey_scale needs RGB images"),
        ({"resize": [4, 4]}, "wrap.resize needs images"),
        ({"end_on_life_loss": True}, "wrap.end_on_life_loss is for Atari games"),
    ],
)
def test_a_wrapper_that_does_not_fit_the_env_says_what_it_needs(wrap: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvError, match=words):
        hotloop.make_vec("tests.envs.test_wrappers:Walk", num_envs=1, num_workers=1, wrap=wrap)


def test_wrappers_of_native_envs_and_unknown_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="wrap was given, but cartpole is a native env"):
        hotloop.make_vec("cartpole", num_envs=1, wrap={"frame_stack": 2})
    with pytest.raises(ValueError, match=r"wrap\['frame_stak'\]"):
        hotloop.make_vec(Walk, num_envs=1, wrap={"frame_stak": 2})
