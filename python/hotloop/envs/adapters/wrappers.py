"""Wrappers of Gymnasium envs that the config's section `wrap` asks for; their state is part of an env's state.

Gymnasium's own wrappers have no state that can be saved, and its image wrappers need OpenCV.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from hotloop.envs.adapters.rows import number
from hotloop.errors import SpaceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# Brightness of red, green and blue (ITU-R BT.601).
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def wrapped(env: Any, wrap: Mapping[str, Any]) -> Any:
    """Return the env with the wrappers that these settings ask for, innermost first: actions, images, stack, limits."""
    if probability := wrap.get("sticky_actions"):
        env = StickyActions(env, probability)
    if count := wrap.get("no_op_start"):
        env = NoOpStart(env, count)
    if wrap.get("frame_skip", 1) > 1 or wrap.get("max_frames"):
        env = FrameSkip(env, wrap.get("frame_skip", 1), max_frames=bool(wrap.get("max_frames")))
    if wrap.get("end_on_life_loss"):
        env = EndOnLifeLoss(env)
    if wrap.get("grey_scale"):
        env = GreyScale(env)
    if size := wrap.get("resize"):
        env = Resize(env, *size)
    if count := wrap.get("frame_stack"):
        env = FrameStack(env, count)
    if bound := wrap.get("clip_reward"):
        env = ClipReward(env, bound)
    if steps := wrap.get("time_limit"):
        env = gymnasium.wrappers.TimeLimit(env, steps)
    return env


class StatefulWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper whose state can be saved and restored."""

    def get_wrapper_state(self) -> dict[str, NDArray[Any]]:
        """Return the wrapper's own state."""
        return {}

    def set_wrapper_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the wrapper's own state."""

    def show(self, obs: Any) -> Any:
        """Return the wrapped form of an observation of a restored env."""
        return obs


class StickyActions(StatefulWrapper):
    """Repeats the previous action with some probability."""

    def __init__(self, env: Any, probability: float) -> None:
        super().__init__(env)
        if not isinstance(env.action_space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box):
            raise SpaceError(f"wrap.sticky_actions does not support the action space {env.action_space}")
        self._probability = probability
        self._random = np.random.default_rng(0)
        self._last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode; its first action is never replaced."""
        if seed is not None:
            self._random = np.random.default_rng([seed, 1])
        self._last = None
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        """Take the action, or the previous one again."""
        if self._last is None or self._random.random() >= self._probability:
            self._last = action
        return self.env.step(self._last)

    def get_wrapper_state(self) -> dict[str, NDArray[Any]]:
        """Return the previous action and the random state."""
        random = json.dumps(self._random.bit_generator.state).encode()
        last = np.zeros(0) if self._last is None else np.asarray(self._last)
        return {"random": np.frombuffer(random, np.uint8), "last": last, "has_last": np.array(self._last is not None)}

    def set_wrapper_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the previous action and the random state."""
        self._random.bit_generator.state = json.loads(state["random"].tobytes())
        last = state["last"]
        self._last = None if not state["has_last"] else last[()] if last.ndim == 0 else last.copy()


class NoOpStart(StatefulWrapper):
    """Begins episodes with a random number of steps with action 0, so that they differ."""

    def __init__(self, env: Any, count: int) -> None:
        super().__init__(env)
        if not isinstance(env.action_space, spaces.Discrete) or env.action_space.start != 0:
            raise SpaceError(f"wrap.no_op_start needs discrete actions from 0: the action space is {env.action_space}")
        self._count = count
        self._random = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        if seed is not None:
            self._random = np.random.default_rng([seed, 2])
        result = self.env.reset(seed=seed, options=options)
        for _ in range(int(self._random.integers(self._count + 1))):
            obs, _, terminated, truncated, info = self.env.step(0)
            result = self.env.reset(options=options) if terminated or truncated else (obs, info)
        return result

    def get_wrapper_state(self) -> dict[str, NDArray[Any]]:
        """Return the random state."""
        return {"random": np.frombuffer(json.dumps(self._random.bit_generator.state).encode(), np.uint8)}

    def set_wrapper_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the random state."""
        self._random.bit_generator.state = json.loads(state["random"].tobytes())


class FrameSkip(StatefulWrapper):
    """Repeats each action and sums the rewards; shows the last frame, or the maximum of the last two."""

    def __init__(self, env: Any, count: int, *, max_frames: bool) -> None:
        super().__init__(env)
        if max_frames and not isinstance(env.observation_space, spaces.Box):
            raise SpaceError(f"wrap.max_frames needs images: the observation space is {env.observation_space}")
        self._count = count
        self._max = max_frames

    def step(self, action: Any) -> Any:
        """Repeat the action until it was taken often enough or the episode is over."""
        total = 0.0
        before: Any = None
        obs: Any = None
        for _ in range(self._count):
            before = obs
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += number(reward)
            if terminated or truncated:
                break
        if self._max and before is not None:
            obs = np.maximum(before, obs)
        return obs, total, terminated, truncated, info


class EndOnLifeLoss(StatefulWrapper):
    """Ends an episode of an Atari game when a life is lost."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        if not hasattr(env.unwrapped, "ale"):
            raise SpaceError(f"wrap.end_on_life_loss is for Atari games: {env.unwrapped} has no lives")
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        result = self.env.reset(seed=seed, options=options)
        self._lives = self._count_lives()
        return result

    def _count_lives(self) -> int:
        game: Any = self.env.unwrapped
        return int(game.ale.lives())

    def step(self, action: Any) -> Any:
        """Take the action."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        lives = self._count_lives()
        lost, self._lives = lives < self._lives, lives
        return obs, reward, terminated or lost, truncated, info

    def get_wrapper_state(self) -> dict[str, NDArray[Any]]:
        """Return the number of lives."""
        return {"lives": np.array(self._lives)}

    def set_wrapper_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the number of lives."""
        self._lives = int(state["lives"])


class ClipReward(StatefulWrapper):
    """Clips rewards."""

    def __init__(self, env: Any, bound: float) -> None:
        super().__init__(env)
        self._bound = bound

    def step(self, action: Any) -> Any:
        """Take the action."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, float(np.clip(number(reward), -self._bound, self._bound)), terminated, truncated, info


class ImageWrapper(StatefulWrapper):
    """A wrapper that replaces each observation by a function of it."""

    def show(self, obs: Any) -> Any:
        """Return the new observation."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self.show(obs), info

    def step(self, action: Any) -> Any:
        """Take the action."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self.show(obs), reward, terminated, truncated, info


class GreyScale(ImageWrapper):
    """Turns RGB images into their brightness: height x width."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = env.observation_space
        if not _is_image(space) or len(space.shape) != 3 or space.shape[2] != 3:
            raise SpaceError(f"wrap.grey_scale needs RGB images (height x width x 3): the observation space is {space}")
        self.observation_space = spaces.Box(0, 255, space.shape[:2], np.uint8)

    def show(self, obs: Any) -> Any:
        """Return the brightness."""
        return np.rint(np.asarray(obs) @ _LUMA).astype(np.uint8)


class Resize(ImageWrapper):
    """Resizes images by the average over the area that each new pixel covers."""

    def __init__(self, env: Any, height: int, width: int) -> None:
        super().__init__(env)
        space = env.observation_space
        if not _is_image(space):
            raise SpaceError(f"wrap.resize needs images (uint8, height x width): the observation space is {space}")
        self.observation_space = spaces.Box(0, 255, (height, width, *space.shape[2:]), np.uint8)
        self._rows = _areas(space.shape[0], height)
        self._columns = _areas(space.shape[1], width).T.copy()

    def show(self, obs: Any) -> Any:
        """Return the resized image."""
        image = np.asarray(obs, np.float32)
        if image.ndim == 2:
            resized = self._rows @ image @ self._columns
        else:
            resized = np.stack([self._rows @ plane @ self._columns for plane in np.moveaxis(image, 2, 0)], 2)
        return np.rint(resized).astype(np.uint8)


def _is_image(space: Any) -> bool:
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


def _areas(before: int, after: int) -> NDArray[np.float32]:
    """Return how much each old pixel adds to each new one, along an axis."""
    edges = np.arange(after + 1) * (before / after)
    old = np.arange(before)
    overlap = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    areas: NDArray[np.float32] = (np.clip(overlap, 0.0, None) * (after / before)).astype(np.float32)
    return areas


class FrameStack(StatefulWrapper):
    """Shows the last observations together: vectors one after the other, images as channels.

    Images of height x width become the channels of one image, channels first; images with channels are joined along
    these. An episode begins with copies of its first observation.
    """

    def __init__(self, env: Any, count: int) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) not in (1, 2, 3):
            raise SpaceError(f"wrap.frame_stack needs vectors or images: the observation space is {space}")
        self._count = count
        self._new_axis = len(space.shape) == 2
        self._axis = 2 if len(space.shape) == 3 and space.shape[2] <= space.shape[0] else 0
        low, high = (self._joined([bound] * count) for bound in (space.low, space.high))
        self.observation_space = spaces.Box(low, high, low.shape, space.dtype.type)
        self._frames: list[Any] = []

    def _joined(self, frames: list[Any]) -> NDArray[Any]:
        return np.stack(frames) if self._new_axis else np.concatenate(frames, self._axis)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._frames = [np.array(obs)] * self._count
        return self._joined(self._frames), info

    def step(self, action: Any) -> Any:
        """Take the action."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        # A copy: some envs write to the same array in every step.
        self._frames = [*self._frames[1:], np.array(obs)]
        return self._joined(self._frames), reward, terminated, truncated, info

    def get_wrapper_state(self) -> dict[str, NDArray[Any]]:
        """Return the frames."""
        return {"frames": np.stack(self._frames)}

    def set_wrapper_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the frames."""
        self._frames = list(state["frames"])

    def show(self, obs: Any) -> Any:
        """Replace the newest frame by this observation."""
        self._frames = [*self._frames[:-1], np.array(obs)]
        return self._joined(self._frames)
