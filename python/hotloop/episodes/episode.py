"""One episode of one env, from its key: what was done and seen is noted, so that it can be replayed."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from hotloop import _core
from hotloop.envs.registry import is_native
from hotloop.envs.spec import EnvSpec
from hotloop.rendering.scene import Scene, scenes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.episodes.local_env import Stage

# Given what the seats see, their masks (if there are any) and the number of the step: an action for each.
Chooser = Callable[["NDArray[Any]", "NDArray[np.int8] | None", int], "NDArray[Any]"]
# An episode that is not over by then is left: in some envs a policy can go in circles for ever.
LONGEST: Final = 10_000


class Episode:
    """An env at the start of the episode that a seed and the env's index among others stand for.

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
            _native(env, options, index, action_repeat) if is_native(env) else _staged(env, options, index, render_mode)
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
        """What each seat has earned."""
        self.sums = [checksum(self.obs)]
        self.ended: Literal["terminated", "truncated"] | None = None

    @property
    def mask(self) -> NDArray[np.int8] | None:
        """Which choices are allowed now, where the env tells."""
        found: NDArray[np.int8] | None = self._info.get("action_mask")
        return found

    @property
    def valid(self) -> NDArray[np.bool_] | None:
        """Which seats decide now, where an env has several."""
        found: NDArray[np.bool_] | None = self._info.get("valid")
        return found

    @property
    def steps(self) -> int:
        """How many were made."""
        return len(self.actions)

    def step(self, actions: NDArray[Any]) -> None:
        """Plays an action of each seat."""
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
        """Plays on to the end."""
        while self.ended is None and self.steps < longest:
            self.step(choose(self.obs, self.mask, self.steps))

    def scene(self) -> Scene:
        """What there is to see now of a native env."""
        assert isinstance(self._pool, _core.Pool)
        (scene,) = scenes(
            self.env, self._pool, self.options, self.actions[-1] if self.actions else None, seats=self.seats
        )
        return scene

    def text(self) -> str:
        """The env in characters."""
        if isinstance(self._pool, _core.Pool):
            from hotloop.rendering import as_text

            return as_text(self.scene())
        return self._pool.text()

    def picture(self) -> NDArray[np.uint8]:
        """The env in pixels: height, width, and red, green and blue."""
        if isinstance(self._pool, _core.Pool):
            from hotloop.rendering import as_picture

            return as_picture(self.scene())
        return self._pool.picture()

    def close(self) -> None:
        """Frees the env."""
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


def _staged(env: str, options: Mapping[str, Any], index: int, render_mode: str | None) -> Stage:
    from hotloop.episodes.local_env import Stage

    return Stage(env, options, index=index, render_mode=render_mode)


def fresh_seed(seed: int) -> int:
    """A seed whose episodes neither training nor its own evaluations have seen, whatever theirs was."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/fresh".encode(), digest_size=8).digest(), "little")


def checksum(obs: NDArray[Any]) -> int:
    """Of what all seats see."""
    return zlib.crc32(obs.data)
