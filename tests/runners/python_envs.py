"""Python envs that tests step in worker processes: well-behaved ones, and one that does every bad thing on request."""

import os
import signal
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

BAD = ("good", "raise", "exit", "kill", "segv", "hang", "memory", "nan", "shape", "dtype", "reward", "infinite reward")


class Bad(gymnasium.Env[Any, int]):
    """Counts to ten, and does what its action names."""

    observation_space = spaces.Box(-100.0, 100.0, (3,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(len(BAD))

    def __init__(self, chance: float = 0.0, length: int = 10) -> None:
        self._chance = chance
        self._length = length
        self._hoard: list[bytes] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if options == {"fail": True}:
            raise ValueError("asked to fail at reset")
        self._count = 0
        return self._seen(), {}

    def _seen(self) -> NDArray[np.float32]:
        return np.array([self._count, 0.5, self.np_random.random()], np.float32)

    def step(self, action: int) -> Any:
        name = BAD[action]
        if self.np_random.random() < self._chance:
            name = BAD[1 + int(self.np_random.integers(5))]
        self._count += 1
        obs: Any = self._seen()
        reward: Any = 1.0
        match name:
            case "raise":
                raise ZeroDivisionError("the env divided by zero")
            case "exit":
                os._exit(3)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "segv":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                time.sleep(600)
            case "memory":
                while True:
                    self._hoard.append(b"x" * 2**24)
                    time.sleep(0.001)
            case "nan":
                obs = np.full(3, np.nan, np.float32)
            case "shape":
                obs = np.zeros(4, np.float32)
            case "dtype":
                obs = np.array(["a", "b", "c"])
            case "reward":
                reward = "much"
            case "infinite reward":
                reward = float("inf")
        return obs, reward, self._count >= self._length, False, {}


class Counter(gymnasium.Env[Any, int]):
    """A walk with noise that offers its state as arrays."""

    observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._place, self._noise = 0.0, float(self.np_random.random())
        return self._seen(), {}

    def _seen(self) -> NDArray[np.float32]:
        return np.array([self._place, self._noise], np.float32)

    def step(self, action: int) -> Any:
        self._place += action - 1 + self._noise
        self._noise = (self._noise * 3.7) % 1.0
        return self._seen(), self._place, abs(self._place) > 5, False, {"success": abs(self._place) > 5}

    def get_state(self) -> dict[str, NDArray[Any]]:
        return {"walk": np.array([self._place, self._noise])}

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        self._place, self._noise = state["walk"].tolist()


class Odd(Counter):
    """The same walk in every form that is allowed: other types, layouts and numbers, turn by turn."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._turn = 0
        seen, info = super().reset(seed=seed)
        return (seen.astype(np.float64) if self._noise < 0.5 else seen), info

    def step(self, action: int) -> Any:
        seen, reward, over, _, info = super().step(action)
        self._turn += 1
        match self._turn % 5:
            case 1:
                return seen.astype(np.float64), np.float32(reward), np.bool_(over), False, info
            case 2:
                return seen.tolist(), np.float64(reward), over, np.False_, info
            case 3:
                return np.repeat(seen, 2)[::2], int(reward), int(over), 0, info
            case 4:
                return [*seen], reward, over, over, info
        return seen, reward, over, False, info


def odd() -> gymnasium.Env[Any, int]:
    """With a time limit."""
    return gymnasium.wrappers.TimeLimit(Odd(), 7)


def counter() -> gymnasium.Env[Any, int]:
    """With a time limit, whose count belongs to the state."""
    return gymnasium.wrappers.TimeLimit(Counter(), 7)


def broken() -> None:
    """Cannot be made."""
    raise FileNotFoundError("there is no level file")


def nothing() -> int:
    """Returns no env."""
    return 3
