"""One episode of one env, determined by its key and recorded so that it can be replayed."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hotloop.envs.registry import is_native
from hotloop.episodes.native_env import NativeEnv

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.envs.scene import Scene
    from hotloop.episodes.local_env import LocalEnv

# Maps observations, masks (if any) and the step number to an action per seat.
Chooser = Callable[["NDArray[Any]", "NDArray[np.int8] | None", int], "NDArray[Any]"]
# Maximum length: in some envs a policy can go in circles for ever.
LONGEST: Final = 10_000


class Episode:
    """An env at the start of the episode given by a seed and an env index.

    It is the first episode that the env of that index plays in any runner with that seed: the key of an evaluation's
    episode is its seed and its number. A Python env is made in this process; `render_mode` and `wrap` are for such
    envs. Reward terms that `reward_weights` does not name have weight 1.
    """

    def __init__(
        self,
        env: str,
        options: Mapping[str, Any],
        *,
        seed: int,
        index: int = 0,
        action_repeat: int = 1,
        render_mode: str | None = None,
        reward_weights: Mapping[str, float] | None = None,
        wrap: Mapping[str, Any] | None = None,
    ) -> None:
        self.env = env
        self.wrap = dict(wrap or {})
        self.seed = seed
        self.index = index
        self.action_repeat = action_repeat
        self._env = _make(env, options, index, action_repeat, render_mode, self.wrap)
        self.options = dict(self._env.options)
        self.spec = self._env.spec
        self.seats = self.spec.seats
        self.reward_weights = dict(reward_weights or {})
        self._env.set_reward_weights(self.reward_weights)
        self.obs, self._info = self._env.reset(seed)
        self.actions: list[NDArray[Any]] = []
        self.rewards: list[NDArray[np.float32]] = []
        self.returns = np.zeros(self.seats)
        """Return of each seat so far."""
        self.sums = [checksum(self.obs)]
        self.ended: Literal["terminated", "truncated"] | None = None

    @property
    def mask(self) -> NDArray[np.int8] | None:
        """Action mask, if the env has one."""
        found: NDArray[np.int8] | None = self._info.get("action_mask")
        return found

    @property
    def valid(self) -> NDArray[np.bool_] | None:
        """Seats that decide now, for envs with several."""
        found: NDArray[np.bool_] | None = self._info.get("valid")
        return found

    @property
    def steps(self) -> int:
        """Number of steps so far."""
        return len(self.actions)

    def step(self, actions: NDArray[Any]) -> None:
        """Step with one action per seat."""
        self.obs, reward, terminated, truncated, self._info = self._env.step(actions)
        self.actions.append(np.array(actions))
        self.rewards.append(reward)
        self.returns += reward
        self.sums.append(checksum(self.obs))
        # With several seats, some may leave before the end, and some may never have played.
        over = terminated[0] or truncated[0] if self.seats == 1 else not self._info["valid"].any()
        if over:
            self.ended = "truncated" if truncated.any() else "terminated"

    def finish(self, choose: Chooser, *, longest: int = LONGEST) -> None:
        """Play to the end."""
        while self.ended is None and self.steps < longest:
            self.step(choose(self.obs, self.mask, self.steps))

    def scene(self) -> Scene:
        """Return the current scene of a native env."""
        assert isinstance(self._env, NativeEnv)
        return self._env.scene()

    def text(self) -> str:
        """Render as text."""
        return self._env.text()

    def picture(self) -> NDArray[np.uint8]:
        """Render as an RGB array of shape (height, width, 3)."""
        return self._env.picture()

    def close(self) -> None:
        """Close the env."""
        self._env.close()


def _make(
    env: str,
    options: Mapping[str, Any],
    index: int,
    action_repeat: int,
    render_mode: str | None,
    wrap: Mapping[str, Any],
) -> NativeEnv | LocalEnv:
    if is_native(env):
        return NativeEnv(env, options, index=index, action_repeat=action_repeat)
    from hotloop.episodes.local_env import LocalEnv

    return LocalEnv(env, options, index=index, render_mode=render_mode, wrap=wrap)


def fresh_seed(seed: int) -> int:
    """Derive a seed whose episodes occur neither in training nor in its evaluations."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/fresh".encode(), digest_size=8).digest(), "little")


def checksum(obs: NDArray[Any]) -> int:
    """Checksum of all seats' observations."""
    return zlib.crc32(obs.data)
