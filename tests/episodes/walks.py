"""A Python env that shows itself in every way, allows one action, and does some bad things on request."""

import random
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Walk(gymnasium.Env[Any, int]):
    """Nine steps to the right; going left is not allowed."""

    metadata = {"render_modes": ["human", "ansi", "rgb_array"], "render_fps": 7}  # noqa: RUF012 - so it is with Gymnasium
    observation_space = spaces.Box(0.0, 20.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def __init__(
        self, render_mode: str | None = None, *, fail: str = "", luck: bool = False, wide: bool = False
    ) -> None:
        self.render_mode = render_mode
        self._fail = fail
        self._luck = luck
        if wide:
            self.observation_space = spaces.Box(0.0, 20.0, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._at, self._wind = 0, self.np_random.random()
        return self._seen(), self._info()

    def step(self, action: int) -> Any:
        assert action == 1, "left is not allowed"
        if self._fail == "step":
            raise RuntimeError("the floor\nis gone")
        self._at += 1
        if self._luck:
            self._wind = random.random()
        return self._seen(), self._wind, self._at == 9, False, self._info()

    def _seen(self) -> NDArray[np.float32]:
        seen = np.zeros(self.observation_space.shape or (), np.float32)
        seen[:2] = self._at, self._wind
        return seen

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([0, 1], np.int8)}

    def render(self) -> Any:
        if self._fail == "render":
            return "no picture"
        if self.render_mode == "ansi":
            return "\n" + "." * self._at + "\x1b[41m@\x1b[0m\n"
        assert self.render_mode == "rgb_array"
        size = (31 + 2 * self._at, 45) if self._fail == "size" else (31, 45)
        return np.full((*size, 4), 20 * self._at, np.uint8)


class Blind(Walk):
    """Never shows itself."""

    metadata = {"render_modes": []}  # noqa: RUF012 - so it is with Gymnasium


class Written(Walk):
    """Has no picture."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - so it is with Gymnasium


def bare() -> Walk:
    """Takes no render mode."""
    return Walk()


def drawn() -> Walk:
    """Always draws."""
    return Walk("rgb_array")


class Unbounded(Blind):
    """Takes any number."""

    action_space: spaces.Space[Any] = spaces.Box(
        np.array([-np.inf, 3.0, -np.inf, 2.0], np.float32), np.array([np.inf, np.inf, -3.0, 5.0], np.float32)
    )

    def step(self, action: Any) -> Any:
        return super().step(1)
