"""Cartpole, mountain-car, acrobot and pendulum follow Gymnasium's own envs, transition by transition."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

import hotloop

TRANSITIONS = 5000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    name: str
    id: str
    fields: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    margin: Callable[[Floats], Floats]
    """Return the distance of each next state from the end of the episode."""
    options: dict[str, Any]
    keywords: dict[str, Any]
    attributes: dict[str, Any]
    """The names of our options as attributes of Gymnasium's env."""
    tolerance: float = 2e-6


def cartpole_margin(state: Floats) -> Floats:
    return np.asarray(np.minimum(abs(abs(state[:, 0]) - 2.4), abs(abs(state[:, 2]) - np.radians(12))))


def car_margin(state: Floats) -> Floats:
    return np.asarray(np.minimum(abs(state[:, 0] - 0.5), np.where(state[:, 0] >= 0.5, abs(state[:, 1]), 1.0)))


def acrobot_margin(state: Floats) -> Floats:
    return abs(-np.cos(state[:, 0]) - np.cos(state[:, 1] + state[:, 0]) - 1.0)


CARTPOLE = (("x", "x_dot", "theta", "theta_dot"), (-2.6, -3, -0.25, -3), (2.6, 3, 0.25, 3), cartpole_margin)
CAR = (("position", "velocity"), (-1.2, -0.07), (0.6, 0.07), car_margin)
ACROBOT = (
    ("theta1", "theta2", "theta1_dot", "theta2_dot"),
    (-np.pi, -np.pi, -4 * np.pi, -9 * np.pi),
    (np.pi, np.pi, 4 * np.pi, 9 * np.pi),
    acrobot_margin,
)
PENDULUM = (("theta", "theta_dot"), (-9, -8), (9, 8), lambda state: np.ones(len(state)))

CASES = [
    Case("cartpole", "CartPole-v1", *CARTPOLE, {}, {}, {}),
    Case(
        "cartpole",
        "CartPole-v1",
        *CARTPOLE,
        {"sutton_barto_reward": True, "gravity": 3.0, "force": 5.0, "length": 0.25},
        {"sutton_barto_reward": True},
        {"gravity": 3.0, "force_mag": 5.0, "length": 0.25, "polemass_length": 0.025},
    ),
    Case("mountain-car", "MountainCar-v0", *CAR, {}, {}, {}),
    Case(
        "mountain-car",
        "MountainCar-v0",
        *CAR,
        {"goal_velocity": 0.02, "force": 0.002, "gravity": 0.001},
        {"goal_velocity": 0.02},
        {"force": 0.002, "gravity": 0.001},
    ),
    # Four steps of Runge-Kutta at high speed: rounding grows on the way.
    Case("acrobot", "Acrobot-v1", *ACROBOT, {}, {}, {}, tolerance=5e-4),
    Case("pendulum", "Pendulum-v1", *PENDULUM, {}, {}, {}, tolerance=5e-6),
    Case(
        "pendulum",
        "Pendulum-v1",
        *PENDULUM,
        {"gravity": 2.0, "mass": 0.5, "length": 2.0},
        {"g": 2.0},
        {"m": 0.5, "l": 2.0},
        tolerance=5e-6,
    ),
]


def random_states(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    """Over the whole space, and half of them near where episodes begin and are decided."""
    unit = rng.uniform(size=(TRANSITIONS, len(case.fields)))
    unit[::2] = 0.5 + (unit[::2] - 0.5) * 0.2
    low, high = np.array(case.low), np.array(case.high)
    return np.asarray(low + unit * (high - low), np.float32)


def theirs(case: Case, states: NDArray[np.float32], actions: NDArray[Any]) -> tuple[list[Any], ...]:
    env: Any = gymnasium.make(case.id, disable_env_checker=True, **case.keywords).unwrapped
    for name, value in case.attributes.items():
        setattr(env, name, value)
    env.reset(seed=0)
    outcomes = []
    for state, action in zip(states, actions, strict=True):
        env.state = state.astype(np.float64)
        if case.name == "cartpole":
            env.steps_beyond_terminated = None
        obs, reward, terminated, _, _ = env.step(action)
        outcomes.append((obs, reward, terminated, np.array(env.state, np.float64)))
    return tuple(list(part) for part in zip(*outcomes, strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join([case.name, *case.options]))
def test_transitions_are_gymnasiums(case: Case) -> None:
    rng = np.random.default_rng(7)
    states = random_states(case, rng)
    envs = hotloop.make_vec(case.name, TRANSITIONS, options=case.options)
    envs.reset(seed=0)
    envs.action_space.seed(1)
    actions = envs.action_space.sample()
    envs.set_state(dict(zip(case.fields, states.T, strict=True)))
    obs, reward, terminated, truncated, _ = envs.step(actions)
    their_obs, their_reward, their_terminated, their_state = (np.array(part) for part in theirs(case, states, actions))

    scale = np.maximum(1.0, abs(their_obs))
    assert (abs(obs - their_obs) / scale).max() < case.tolerance
    assert not truncated.any()
    sure = case.margin(their_state) > 1e-4
    assert sure.mean() > 0.95
    assert np.array_equal(terminated[sure], their_terminated[sure])
    np.testing.assert_allclose(reward[sure], their_reward[sure], rtol=1e-5, atol=1e-5)
    if case.name != "pendulum":
        assert 0 < terminated.sum() < TRANSITIONS


@pytest.mark.parametrize("case", CASES[::2], ids=lambda case: case.name)
def test_spaces_are_gymnasiums(case: Case) -> None:
    env = gymnasium.make(case.id)
    envs = hotloop.make_vec(case.name, 3)
    assert envs.single_action_space == env.action_space
    ours, their = envs.single_observation_space, env.observation_space
    assert isinstance(ours, gymnasium.spaces.Box)
    assert isinstance(their, gymnasium.spaces.Box)
    assert (ours.shape, ours.dtype) == (their.shape, their.dtype)
    # Gymnasium bounds cartpole's velocities by the largest float, we by infinity.
    their_high = np.where(their.high > 1e38, np.inf, their.high)
    np.testing.assert_allclose(ours.high, their_high, rtol=1e-6)


@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[4], CASES[5]], ids=lambda case: case.name)
def test_time_limit_is_gymnasiums(case: Case) -> None:
    spec = gymnasium.spec(case.id)
    assert spec.max_episode_steps is not None
    envs = hotloop.make_vec(case.name, 2)
    envs.reset(seed=0)
    envs.set_state({"elapsed_steps": [spec.max_episode_steps - 2, spec.max_episode_steps - 1]})
    action = np.zeros_like(envs.action_space.sample())
    assert envs.step(action)[3].tolist() == [False, True]
    assert envs.step(action)[3].tolist() == [True, False]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("cartpole", [-0.05] * 4, [0.05] * 4),
        ("mountain-car", [-0.6, 0], [-0.4, 0]),
        ("acrobot", [-0.1] * 4, [0.1] * 4),
        ("pendulum", [-np.pi, -1], [np.pi, 1]),
    ],
)
def test_episodes_start_uniformly_where_gymnasiums_do(name: str, low: list[float], high: list[float]) -> None:
    envs = hotloop.make_vec(name, 20_000)
    envs.reset(seed=11)
    state = envs.get_state()
    assert (state.pop("elapsed_steps") == 0).all()
    for values, least, most in zip(state.values(), low, high, strict=True):
        assert values.min() >= np.float32(least)
        assert values.max() <= np.float32(most)
        if least < most:
            counts, _ = np.histogram((values - least) / (most - least), bins=10, range=(0, 1))
            assert abs(counts - 2000).max() < 6 * np.sqrt(2000)
    if name != "mountain-car":
        first, second = list(state.values())[:2]
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
