"""Spaces of Gymnasium as a policy takes them, and back."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from hotloop import _core
from hotloop.envs.flatten import FlatAction, FlatObservation
from hotloop.envs.spec import EnvSpec, HybridAction
from hotloop.errors import SpaceError
from hotloop.policies.protocol import ActRequest

NESTED = spaces.Dict(
    {
        "place": spaces.Box(-1.0, 1.0, (2, 2), np.float64),
        "choice": spaces.Discrete(3, start=5),
        "pair": spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 4], start=[1, -1])]),
    }
)
OBSERVATIONS: list[spaces.Space[Any]] = [
    spaces.Box(-np.inf, np.inf, (3,), np.float32),
    spaces.Box(0, 255, (4, 4, 3), np.uint8),
    spaces.Box(-5, 5, (), np.float32),
    spaces.Discrete(7, start=-2),
    spaces.MultiBinary([2, 2]),
    spaces.MultiDiscrete([3, 2]),
    NESTED,
]
ACTIONS: list[spaces.Space[Any]] = [
    spaces.Discrete(4, start=1),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    spaces.MultiBinary(3),
    spaces.Box(-2, 2, (2, 2), np.float32),
    spaces.Dict({"move": spaces.Discrete(3), "look": spaces.MultiBinary(2)}),
    spaces.Tuple([spaces.Box(0, 1, (1,)), spaces.Box(-1, 0, (2,))]),
    spaces.Tuple(
        [
            spaces.Box(-2, 2, (2, 2), np.float32),
            spaces.Dict({"move": spaces.Discrete(3, start=-1), "force": spaces.Box(0, 9, (1,), np.int64)}),
            spaces.MultiDiscrete([2, 4]),
            spaces.MultiBinary(2),
        ]
    ),
]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other)) and np.shape(one) == np.shape(other)


@pytest.mark.parametrize("space", OBSERVATIONS, ids=str)
def test_flattened_observations_come_back(space: spaces.Space[Any]) -> None:
    flat = FlatObservation(space)
    space.seed(0)
    for _ in range(20):
        obs = space.sample()
        shown = flat.flatten(obs)
        assert np.shape(shown) == flat.shape
        back = flat.unflatten(shown)
        if "Box" in str(space) and "float64" in str(space):
            np.testing.assert_allclose(back["place"], obs["place"], rtol=1e-6)
            obs, back = {**obs, "place": 0}, {**back, "place": 0}
        assert same(back, obs)


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_decided_actions_lie_in_the_space_and_go_back(space: spaces.Space[Any]) -> None:
    flat = FlatAction(space)
    space.seed(0)
    for _ in range(20):
        action = space.sample()
        back = flat.unflatten(flat.flatten(action))
        assert space.contains(back)
        assert same(back, action)


@pytest.mark.parametrize("observation", OBSERVATIONS, ids=str)
@pytest.mark.parametrize("action", [*ACTIONS[:4], ACTIONS[-1]], ids=str)
def test_a_learner_can_be_built_for_flattened_spaces(observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
    seen = FlatObservation(observation)
    spec = EnvSpec(seats=1, observation=seen.spec, action=FlatAction(action).spec, masked=False)
    learner = _core.PpoLearner(spec.to_json(), None, {"hidden": [4]}, rows=2, horizon=1, seed=0)
    shown = np.stack([np.asarray(seen.flatten(observation.sample())) for _ in range(2)])
    decided, _, _ = learner.act(ActRequest(shown, deterministic=True))
    assert action.contains(FlatAction(action).unflatten(decided[0]))


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Text(5), "Text"),
        (spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))}), r"space\['a'\] is Sequence"),
        (spaces.Graph(spaces.Discrete(2), None), "Graph"),
        (spaces.Dict({}), "no parts"),
        (spaces.Box(0, 1, (0,)), "no elements"),
    ],
    ids=str,
)
def test_spaces_that_cannot_be_carried_are_named(space: spaces.Space[Any], words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        FlatObservation(space)
    with pytest.raises(SpaceError):
        FlatAction(space)


def test_a_row_of_a_hybrid_action_has_all_choices_before_the_real_numbers() -> None:
    space = spaces.Tuple([spaces.Box(0, 9, (2,)), spaces.Discrete(3, start=5), spaces.MultiBinary(1)])
    flat = FlatAction(space)
    assert flat.spec == HybridAction((3, 2), (0.0, 0.0), (9.0, 9.0))
    row = flat.flatten((np.array([1.5, 2.5], np.float32), 7, np.array([1], np.int8)))
    assert row.dtype == np.float32
    assert row.tolist() == [2, 1, 1.5, 2.5]


def test_more_choices_than_a_float_can_count_are_refused_beside_real_numbers() -> None:
    many = spaces.Discrete(2**24 + 1)
    assert FlatAction(many).spec.choices == (2**24 + 1,)
    with pytest.raises(SpaceError, match="16777217 choices beside real numbers: at most 16777216"):
        FlatAction(spaces.Tuple([many, spaces.Box(0, 1, (1,))]))
