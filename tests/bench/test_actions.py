"""Prepared actions belong to the space, and to the mask where there is one."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from hotloop.bench.actions import legal_actions, random_actions

SPACES: list[spaces.Space[Any]] = [
    spaces.Discrete(3),
    spaces.MultiDiscrete([2, 5]),
    spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32)),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_row_of_random_actions_is_in_the_space(space: spaces.Space[Any]) -> None:
    batches = random_actions(space, rows=50, count=4)
    assert [len(batch) for batch in batches] == [50] * 4
    assert all(space.contains(row) for batch in batches for row in batch)
    assert not np.array_equal(batches[0], batches[1])


def test_hybrid_actions_are_rows_of_legal_choices_and_real_numbers() -> None:
    space = spaces.Tuple((SPACES[1], SPACES[2]))
    mask = np.tile(np.array([0, 1, 1, 0, 0, 0, 1], np.int8), (50, 1))
    for rows in (*random_actions(space, rows=50, count=2), legal_actions(space, mask, np.random.default_rng(0))):
        assert rows.dtype == np.float32
        assert all(space.contains((row[:2].astype(np.int64), row[2:])) for row in rows)
    assert set(rows[:, 0]) == {1}
    assert set(rows[:, 1]) == {0, 4}


def test_other_spaces_are_refused() -> None:
    with pytest.raises(TypeError, match="no random actions"):
        random_actions(spaces.Text(3), rows=1, count=1)
    with pytest.raises(TypeError, match="no masked actions"):
        legal_actions(SPACES[2], np.ones((1, 2)), np.random.default_rng(0))


@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1), st.integers(0, 2**32))
def test_legal_actions_obey_the_mask(rows: list[list[bool]], seed: int) -> None:
    mask = np.array(rows, np.int8)
    # Two sets of choices, of which each has at least one that is legal.
    mask[:, [0, 6]] = 1
    chosen = legal_actions(spaces.MultiDiscrete([3, 4]), mask, np.random.default_rng(seed))
    everyone = np.arange(len(mask))
    assert mask[everyone, chosen[:, 0]].all()
    assert mask[everyone, 3 + chosen[:, 1]].all()
    assert mask[everyone, legal_actions(spaces.Discrete(7), mask, np.random.default_rng(seed))].all()


def test_every_legal_choice_comes_up() -> None:
    mask = np.tile(np.array([1, 0, 1, 1, 0], np.int8), (1000, 1))
    assert set(legal_actions(spaces.Discrete(5), mask, np.random.default_rng(0))) == {0, 2, 3}
