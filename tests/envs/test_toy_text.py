"""Frozen-lake, cliff-walking and taxi are Gymnasium's: whole transition tables, starts and masks."""

from typing import Any

import gymnasium
import numpy as np
import pytest

import hotloop
from hotloop import _core

MAP = ["SFHF", "FFFF", "HFSG"]
CASES: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("frozen-lake", {}, "FrozenLake-v1", {}),
    ("frozen-lake", {"slippery": False}, "FrozenLake-v1", {"is_slippery": False}),
    ("frozen-lake", {"map": "8x8"}, "FrozenLake8x8-v1", {}),
    ("frozen-lake", {"map": "/".join(MAP), "success_rate": 0.7}, "FrozenLake-v1", {"desc": MAP, "success_rate": 0.7}),
    (
        "frozen-lake",
        {"reward_goal": 3.0, "reward_hole": -2.0, "reward_frozen": -0.25},
        "FrozenLake-v1",
        {"reward_schedule": (3, -2, -0.25)},
    ),
    ("cliff-walking", {}, "CliffWalking-v1", {}),
    ("cliff-walking", {"slippery": True}, "CliffWalkingSlippery-v1", {}),
    ("taxi", {}, "Taxi-v4", {}),
    ("taxi", {"rainy": True}, "Taxi-v4", {"is_rainy": True}),
    ("taxi", {"rainy": True, "rainy_probability": 0.5}, "Taxi-v4", {"is_rainy": True, "rainy_probability": 0.5}),
]
IDS = [" ".join([name, *map(str, options)]) for name, options, _, _ in CASES]
Outcomes = dict[tuple[int, float, bool], float]


def outcomes(listed: list[tuple[float, int, float, bool]]) -> Outcomes:
    """Probabilities by what happens; equal outcomes added up."""
    summed: Outcomes = {}
    for probability, state, reward, terminated in listed:
        key = (int(state), float(reward), bool(terminated))
        summed[key] = summed.get(key, 0.0) + float(probability)
    return {key: probability for key, probability in summed.items() if probability > 0}


def our_table(name: str, options: dict[str, Any]) -> dict[tuple[int, int], Outcomes]:
    table = _core.transitions(name, options)
    assert table is not None
    columns = zip(table["probability"], table["next"], table["reward"], table["terminated"], strict=True)
    rows = [(float(p), int(state), float(reward), bool(over)) for p, state, reward, over in columns]
    offsets = table["offsets"]
    return {
        (state, action): outcomes(rows[offsets[i] : offsets[i + 1]])
        for i, (state, action) in enumerate(np.ndindex(table["states"], table["actions"]))
    }


@pytest.mark.parametrize(("name", "options", "id", "keywords"), CASES, ids=IDS)
def test_transition_table_is_gymnasiums(name: str, options: dict[str, Any], id: str, keywords: dict[str, Any]) -> None:
    env: Any = gymnasium.make(id, **keywords).unwrapped
    ours = our_table(name, options)
    theirs = {(s, a): outcomes(env.P[s][a]) for s in range(env.observation_space.n) for a in range(env.action_space.n)}
    assert ours.keys() == theirs.keys()
    for key, expected in theirs.items():
        assert ours[key] == pytest.approx(expected, abs=1e-12), key
    table = _core.transitions(name, options)
    assert table is not None
    np.testing.assert_allclose(table["start"], env.initial_state_distrib, atol=1e-12)


@pytest.mark.parametrize(("name", "options", "id", "keywords"), CASES, ids=IDS)
def test_steps_follow_the_table(name: str, options: dict[str, Any], id: str, keywords: dict[str, Any]) -> None:
    table = our_table(name, options)
    pairs = np.array(list(table))
    repeats = 1 if all(len(out) == 1 for out in table.values()) else 400
    if repeats > 1:
        # Of a large table every few pairs are enough to see the draws.
        pairs = pairs[:: max(1, len(pairs) // 250)]
    states, actions = np.repeat(pairs, repeats, axis=0).T
    # Taxi's mask is advice, as in Gymnasium: every action is taken, and costs what it costs.
    envs = hotloop.make_vec(name, len(states), options=options, infos=["prob"])
    envs.reset(seed=5)
    envs.set_state({"state": states})
    obs, reward, terminated, _, info = envs.step(actions)
    counts: dict[tuple[int, int], dict[tuple[int, float, bool], int]] = {}
    for i, (state, action) in enumerate(zip(states.tolist(), actions.tolist(), strict=True)):
        outcome = (int(obs[i]), float(reward[i]), bool(terminated[i]))
        # Equal outcomes of one action add up, so the stated probability is at most the sum.
        assert 0 < info["prob"][i] <= table[state, action][outcome] + 1e-6
        seen = counts.setdefault((state, action), {})
        seen[outcome] = seen.get(outcome, 0) + 1
    for key, seen in counts.items():
        for outcome, probability in table[key].items():
            spread = np.sqrt(repeats * probability * (1 - probability))
            assert abs(seen.get(outcome, 0) - repeats * probability) <= 6 * spread + 1e-9, (key, outcome)


@pytest.mark.parametrize(
    ("name", "id"), [("frozen-lake", "FrozenLake-v1"), ("cliff-walking", "CliffWalking-v1"), ("taxi", "Taxi-v4")]
)
def test_episodes_start_as_gymnasiums(name: str, id: str) -> None:
    env: Any = gymnasium.make(id).unwrapped
    obs, _ = hotloop.make_vec(name, 60_000).reset(seed=3)
    counts = np.bincount(obs, minlength=env.observation_space.n)
    expected = 60_000 * env.initial_state_distrib
    assert (abs(counts - expected) <= 6 * np.sqrt(expected)).all()


def test_taxi_masks_are_gymnasiums() -> None:
    env: Any = gymnasium.make("Taxi-v4").unwrapped
    envs = hotloop.make_vec("taxi", 500)
    envs.reset(seed=0)
    _, info = envs.set_state({"state": np.arange(500)})
    theirs = np.array([env.action_mask(state) for state in range(500)])
    differ = np.flatnonzero((info["action_mask"] != theirs).any(axis=1))
    assert differ.tolist() == []


def test_a_fickle_passenger_changes_the_destination_at_most_once() -> None:
    envs = hotloop.make_vec("taxi", 4000, options={"fickle": True, "fickle_probability": 0.25, "masked": False})
    envs.reset(seed=0)
    # In the taxi at (2, 2), bound for stand 0; the first move decides.
    start = ((2 * 5 + 2) * 5 + 4) * 4
    envs.set_state({"state": np.full(4000, start)})
    obs = envs.step(np.zeros(4000, np.int64))[0]
    changed = obs % 4 != 0
    assert abs(changed.mean() - 0.25) < 0.05
    later = envs.step(np.ones(4000, np.int64))[0]
    assert np.array_equal(later % 4, obs % 4)


def test_envs_without_a_table_say_so() -> None:
    assert _core.transitions("cartpole") is None
