"""One native env for watching and replaying, with the interface of `LocalEnv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hotloop import _core
from hotloop.envs.reward_weights import set_reward_weights
from hotloop.envs.scene import Scene, scenes
from hotloop.envs.spec import EnvSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class NativeEnv:
    """A pool of one env.

    Args:
        env: Name of the env.
        options: Its options.
        index: The env's index among others with the same seed.
        action_repeat: Ticks per step.
    """

    def __init__(self, env: str, options: Mapping[str, Any], *, index: int = 0, action_repeat: int = 1) -> None:
        self._name = env
        self._pool = _core.Pool(
            env,
            1,
            num_threads=1,
            options=dict(options),
            first_env=index,
            autoreset="disabled",
            action_repeat=action_repeat,
        )
        self.spec = EnvSpec.from_json(self._pool.describe())
        self.options: Mapping[str, Any] = self._pool.options()
        """All options, defaults included."""
        self._actions: NDArray[Any] | None = None

    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weights of the named reward terms."""
        set_reward_weights(self._pool, self.spec.terms, weights)

    def reset(self, seed: int) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start the first episode of this seed."""
        self._pool.seed(seed)
        return self._pool.reset()

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float32], Any, Any, dict[str, Any]]:
        """Step with one action per seat."""
        result = self._pool.step(actions)
        self._actions = actions
        return result

    def text(self) -> str:
        """Render as text."""
        from hotloop.rendering import as_text

        return as_text(self.scene())

    def picture(self) -> NDArray[np.uint8]:
        """Render as an RGB array of shape (height, width, 3)."""
        from hotloop.rendering import as_picture

        return as_picture(self.scene())

    def scene(self) -> Scene:
        """Return the state of the env as renderers read it."""
        (scene,) = scenes(self._name, self._pool, self.options, self._actions, seats=self.spec.seats)
        return scene

    def close(self) -> None:
        """Free the env."""
        self._pool.close()
