"""Curves as a picture: what is drawn where, and which numbers stand at the axes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.rendering.chart import COLOURS, Band, ChartLine, chart, ticks

pytest.importorskip("PIL")

numbers = st.floats(-1e300, 1e300)


def drawn(*lines: ChartLine) -> np.ndarray[Any, Any]:
    return np.asarray(chart(lines, up="return", along="steps")).astype(int)


def near(picture: np.ndarray[Any, Any], colour: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Where a picture has nearly this colour: rows and columns."""
    return np.argwhere(np.abs(picture - colour).sum(axis=2) < 30)


def test_a_line_goes_from_corner_to_corner() -> None:
    found = near(drawn(ChartLine("one", np.array([0.0, 10.0]), np.array([0.0, 5.0]))), COLOURS[0])
    first, last = found[np.argmin(found[:, 1])], found[np.argmax(found[:, 1])]
    assert first[0] > 500
    assert last[0] < 80
    assert last[1] - first[1] > 950


def test_every_line_has_its_colour_and_a_band_shows_what_is_behind_it() -> None:
    x = np.linspace(0.0, 1.0, 50)
    band = Band(x, 0 * x - 2, 0 * x + 2)
    picture = drawn(ChartLine("one", x, 0 * x - 1, [band]), ChartLine("two", x, 0 * x + 1))
    assert len(near(picture, COLOURS[0])) > 900
    assert len(near(picture, COLOURS[1])) > 900
    tint = tuple(round(255 + (part - 255) * 70 / 255) for part in COLOURS[0])
    assert len(near(picture, tint)) > 100_000


def test_the_legend_stays_clear_of_the_line() -> None:
    rising, falling = np.linspace(0, 1, 200), np.linspace(1, 0, 200)
    x = np.linspace(0, 1, 200)
    for y in (rising, falling):
        long = ChartLine("a run with a name that takes half of the whole width" * 3, x, y)
        columns = {int(column) for _, column in near(drawn(long), COLOURS[0])}
        assert len(columns) > 950


@pytest.mark.parametrize("values", [[3.0], [7.0, 7.0, 7.0], [0.0, 0.0], [1e-200, 2e-200], [-1e300, 1e300]])
def test_what_has_no_height_or_an_extreme_one_is_drawn(values: list[float]) -> None:
    y = np.array(values)
    found = near(drawn(ChartLine("one", np.arange(len(y), dtype=float), y)), COLOURS[0])
    assert len(found) > 30


@given(numbers, numbers, st.integers(4, 12))
def test_ticks_are_few_distinct_and_within_their_range(one: float, other: float, most: int) -> None:
    low, high = sorted((one, other))
    if high - low <= max(abs(low), abs(high)) * 1e-9 or high - low < 1e-290:
        return
    found = ticks(low, high, most)
    assert 1 <= len(found) <= most + 1
    slack = (high - low) * 1e-6
    assert all(low - slack <= value <= high + slack for value, _ in found)
    assert len({text for _, text in found}) == len(found)
