"""One episode of one env, determined by its key and recorded so that it can be replayed."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hotloop import _core
from hotloop.envs.registry import is_native
from hotloop.envs.scene import Scene, scenes
from hotloop.envs.spec import EnvSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.episodes.local_env import LocalEnv

# Maps observations, masks (if any) and the step number to an action per seat.
Chooser = Callable[["NDArray[Any]", "NDArray[np.int8] | None", int], "NDArray[Any]"]
# Maximum length: in some envs a policy can go in circles for ever.
LONGEST: Final = 10_000


class Episode:
    """An env at the start of the episode given by a seed and an env index.

    It is the first episode that the env of that index plays in any runner with that seed: the key of an evaluation's
    episode is its seed and its number. A Python env is made in this process; `render_mode` is for such envs.
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
    ) -> None:
        self.env = env
        self.seed = seed
        self.index = index
        self.action_repeat = action_repeat
        self._pool = (
            _native(env, options, index, action_repeat) if is_native(env) else _local(env, options, index, render_mode)
        )
        self.options: dict[str, Any] = self._pool.options()
        pool = self._pool
        self.spec = EnvSpec.from_json(pool.describe()) if isinstance(pool, _core.Pool) else pool.spec
        self.seats = self.spec.seats
        self._pool.seed(seed)
        self.obs, self._info = self._pool.reset()
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
        self.obs, reward, terminated, truncated, self._info = self._pool.step(actions)
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
        assert isinstance(self._pool, _core.Pool)
        (scene,) = scenes(
            self.env, self._pool, self.options, self.actions[-1] if self.actions else None, seats=self.seats
        )
        return scene

    def text(self) -> str:
        """Render as text."""
        if isinstance(self._pool, _core.Pool):
            from hotloop.rendering import as_text

            return as_text(self.scene())
        return self._pool.text()

    def picture(self) -> NDArray[np.uint8]:
        """Render as an RGB array of shape (height, width, 3)."""
        if isinstance(self._pool, _core.Pool):
            from hotloop.rendering import as_picture

            return as_picture(self.scene())
        return self._pool.picture()

    def close(self) -> None:
        """Close the env."""
        self._pool.close()


def _native(env: str, options: Mapping[str, Any], index: int, action_repeat: int) -> _core.Pool:
    return _core.Pool(
        env,
        1,
        num_threads=1,
        options=dict(options),
        first_env=index,
        autoreset="disabled",
        action_repeat=action_repeat,
    )


def _local(env: str, options: Mapping[str, Any], index: int, render_mode: str | None) -> LocalEnv:
    from hotloop.episodes.local_env import LocalEnv

    return LocalEnv(env, options, index=index, render_mode=render_mode)


def fresh_seed(seed: int) -> int:
    """Derive a seed whose episodes occur neither in training nor in its evaluations."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/fresh".encode(), digest_size=8).digest(), "little")


def checksum(obs: NDArray[Any]) -> int:
    """Checksum of all seats' observations."""
    return zlib.crc32(obs.data)
