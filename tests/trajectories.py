"""Trajectories of native envs: variants worth trying, and actions that are the same on every machine and version."""

import hashlib
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hotloop.runners.base import Runner

Variant = tuple[str, dict[str, Any]]

VARIANTS: list[Variant] = [
    ("cartpole", {}),
    ("mountain-car", {"max_steps": 70}),
    ("acrobot", {"max_steps": 60}),
    ("pendulum", {"max_steps": 50}),
    ("frozen-lake", {}),
    ("cliff-walking", {"max_steps": 40}),
    ("taxi", {}),
    ("taxi", {"rainy": True, "fickle": True, "masked": False, "max_steps": 30}),
    ("tictactoe", {}),
    ("tictactoe", {"opponent": "self", "observation": "board"}),
    ("recall", {"delay": 3}),
    ("recall", {"cues": 5, "symbols": 3, "delay": 2}),
    ("catch", {}),
    ("catch", {"height": 7, "width": 9, "visible": 2}),
    ("cage2", {"red": "mix", "green": True, "lengths": [30, 50]}),
    ("cage2", {"red": "meander", "actions": "compact", "features": "memory"}),
    ("tag", {}),
    ("tag", {"seats": 8, "players": 5, "observation": "grid", "max_steps": 20}),
]
ONE_SEAT = [variant for variant in VARIANTS if variant[0] != "tag" and variant[1].get("opponent") != "self"]


def label(variant: Variant) -> str:
    """A variant as a test's id and as a key."""
    name, options = variant
    return " ".join([name, *(f"{key}={value}" for key, value in options.items())])


def _bits(step: int, shape: tuple[int, ...], seed: int) -> NDArray[np.uint64]:
    """Numbers that depend only on the arguments (splitmix64)."""
    count = int(np.prod(shape))
    with np.errstate(over="ignore"):
        x = np.arange(count, dtype=np.uint64) + np.uint64((seed << 50) + (step << 26))
        x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).reshape(shape)


def choose(
    space: gymnasium.Space[Any], rows: int, step: int, mask: NDArray[np.int8] | None = None, seed: int = 0
) -> NDArray[Any]:
    """An action for each row; legal ones where there is a mask."""
    if isinstance(space, gymnasium.spaces.Box):
        unit = (_bits(step, (rows, *space.shape), seed) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)
        values: NDArray[np.float32] = space.low + (space.high - space.low) * unit
        return values
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        many: NDArray[np.int64] = (_bits(step, (rows, *space.shape), seed) >> np.uint64(33)).astype(
            np.int64
        ) % space.nvec
        return many
    assert isinstance(space, gymnasium.spaces.Discrete)
    draws = (_bits(step, (rows,), seed) >> np.uint64(33)).astype(np.int64)
    if mask is None:
        return np.asarray(draws % space.n)
    # The k-th legal choice, k drawn among as many as there are.
    kth = draws % np.maximum(mask.sum(axis=1), 1)
    ranks = mask.cumsum(axis=1) - 1
    return np.asarray(np.argmax((ranks == kth[:, None]) & (mask == 1), axis=1))


def choose_for(envs: Runner, step: int, info: dict[str, Any], seed: int = 0) -> NDArray[Any]:
    """An action for each row of a runner."""
    return choose(envs.single_action_space, envs.num_envs, step, info.get("action_mask"), seed)


class Digest:
    """A checksum of everything that a runner returns."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, *parts: object) -> None:
        """Arrays, and dicts of them in the order of their keys."""
        for part in parts:
            if isinstance(part, dict):
                for key in sorted(part):
                    self.add(part[key])
            elif isinstance(part, np.ndarray) and part.dtype == object:
                self.add(*(np.asarray(item) for item in part if item is not None))
            else:
                self._hash.update(np.ascontiguousarray(part).tobytes())

    def text(self) -> str:
        """The checksum so far."""
        return self._hash.hexdigest()


def play(envs: Runner, steps: int, seed: int = 0) -> str:
    """Play from a seeded reset; return the checksum of all observations."""
    digest = Digest()
    obs, info = envs.reset(seed=seed)
    digest.add(obs, info)
    for step in range(steps):
        obs, reward, terminated, truncated, info = envs.step(choose_for(envs, step, info))
        digest.add(obs, reward, terminated, truncated, info)
    return digest.text()
