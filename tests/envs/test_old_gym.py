"""Envs with the interface of old Gym, masks from a method, and rewards in arrays."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop.envs.adapters.factory import adapt
from hotloop.errors import SpaceError


class OldSpace:
    """A space of another package, with the name and the attributes of one of Gym's."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__ |= attributes


Box = type("Box", (OldSpace,), {})
Discrete = type("Discrete", (OldSpace,), {})


class Old:
    """As envs were before Gym 0.26."""

    observation_space = Box(low=np.zeros(1), high=np.full(1, 9.0), shape=(1,), dtype=np.float32)
    action_space = Discrete(n=2)

    def seed(self, seed: int) -> None:
        self._first = seed % 3

    def reset(self) -> Any:
        self._count = self._first
        return np.array([self._count], np.float32)

    def step(self, action: int) -> Any:
        self._count += 1
        info = {"TimeLimit.truncated": True} if action else {}
        return np.array([self._count], np.float32), np.array([0.5]), action == 1 or self._count > 4, info


def test_an_old_env_is_played_with_its_ends_told_apart() -> None:
    with hotloop.make_vec(Old, num_envs=1, num_workers=1) as envs:
        obs, _ = envs.reset(seed=[4])
        assert obs.tolist() == [[1.0]]
        obs, reward, terminated, truncated, _ = envs.step([1])
        assert (obs.tolist(), reward.tolist(), bool(terminated[0]), bool(truncated[0])) == ([[2.0]], [0.5], False, True)
        envs.step([0])
        assert not any(envs.step([0])[2] for _ in range(2))
        while not (end := envs.step([0]))[2][0]:
            pass
        assert not end[3][0]


def test_a_space_that_is_none_is_named() -> None:
    class Lost(gymnasium.Env[Any, Any]):
        action_space: spaces.Space[Any] = spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return 0, {}

    lost = Lost()
    lost.observation_space = None  # type: ignore[assignment]
    with pytest.raises(SpaceError, match="the space is None: expected one of Gymnasium's spaces"):
        adapt(lost)


class FourValues(gymnasium.Env[Any, int]):
    """A new `reset`, and an old `step`."""

    observation_space = spaces.Box(0, 1, (1,))
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        return np.zeros(1, np.float32), 1.0, False, {}


def test_a_step_with_four_values_is_a_fault_in_one_line() -> None:
    with hotloop.make_vec(FourValues, num_envs=1, num_workers=1) as envs:
        envs.reset(seed=0)
        envs.step([0])
        (fault,) = envs.faults().first
        assert fault.what == (
            "EnvOutputError: step returned 4 values: expected (observation, reward, terminated, truncated, info)"
        )


class Masking(gymnasium.Env[Any, int]):
    """Allows one action, as sb3-contrib's MaskablePPO asks for it."""

    observation_space = spaces.Box(0, 9, (1,))
    action_space: spaces.Space[Any] = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._turn = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        assert action == self._turn % 3
        self._turn += 1
        return np.zeros(1, np.float32), 1.0, False, False, {}

    def action_masks(self) -> Any:
        return np.arange(3) == self._turn % 3


def test_masks_come_from_a_method_through_wrappers() -> None:
    with hotloop.make_vec(lambda: gymnasium.wrappers.TimeLimit(Masking(), 9), num_envs=2, num_workers=1) as envs:
        _, info = envs.reset(seed=0)
        assert info["action_mask"].tolist() == [[1, 0, 0]] * 2
        assert envs.step([0, 0])[4]["action_mask"].tolist() == [[0, 1, 0]] * 2
        with pytest.raises(ValueError, match="which its mask forbids"):
            envs.step([0, 1])


def test_methods_and_attributes_of_envs_are_reached() -> None:
    with hotloop.make_vec(lambda: gymnasium.wrappers.TimeLimit(Masking(), 9), num_envs=3, num_workers=2) as envs:
        envs.reset(seed=0)
        envs.step([0, 0, 0])
        assert envs.get_attr("_turn") == (1, 1, 1)
        envs.set_attr("_turn", [1, 2, 4])
        assert [mask.tolist() for mask in envs.call("action_masks")][:2] == [[False, True, False], [False, False, True]]
        envs.set_attr("_turn", 0)
        assert envs.get_attr("_turn") == (0, 0, 0)
        with pytest.raises(RuntimeError, match=r"env 0: AttributeError: neither .*TimeLimit.* has 'absent'"):
            envs.call("absent")
        with pytest.raises(ValueError, match="2 values: expected one for each of 3 envs"):
            envs.set_attr("_turn", [1, 2])
        envs.reset(seed=0)
    with hotloop.make_vec("cartpole") as native, pytest.raises(NotImplementedError, match="no Python objects"):
        native.call("render")
