"""Series as charts show them: joined, averaged, with intervals that are the same everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.tracking.chart_series import Window, aggregate, cut_into_buckets, interval, join
from hotloop.tracking.curves import Curve


def curve(x: list[float], y: list[float]) -> Curve:
    return Curve(np.array(x, np.float64), np.array(y, np.float64))


def test_curves_with_the_same_steps_are_joined_as_they_are_and_n_falls() -> None:
    x, values, joined = join([curve([1, 2, 3], [1, 2, 3]), curve([1, 2], [3, 4])], by_record=True)
    assert (x.tolist(), joined) == ([1, 2, 3], "step")
    assert np.isfinite(values).sum(axis=0).tolist() == [2, 2, 1]


def test_seeds_whose_steps_differ_a_little_are_joined_by_record() -> None:
    x, values, joined = join([curve([10, 20], [1, 2]), curve([12, 24], [3, 4])], by_record=True)
    assert (x.tolist(), values.tolist(), joined) == ([11, 22], [[1, 2], [3, 4]], "record")


def test_other_curves_are_interpolated_and_invent_nothing_outside() -> None:
    x, values, joined = join([curve([0, 10], [0, 10]), curve([5, 20], [1, 1])], by_record=False)
    assert (x.tolist(), joined) == ([0, 5, 10, 20], "interpolated")
    assert values[0].tolist()[:3] == [0, 5, 10]
    assert np.isnan(values[0, 3])
    assert np.isnan(values[1, 0])


@pytest.mark.parametrize("statistic", ["mean", "median", "iqm"])
def test_the_interval_has_the_statistic_inside_and_is_reproducible(statistic: str) -> None:
    values = np.random.default_rng(1).normal(size=(8, 20))
    first = aggregate(values, statistic, "ci95", seed=5)  # type: ignore[arg-type]
    again = aggregate(values, statistic, "ci95", seed=5)  # type: ignore[arg-type]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    middle, low, high = first
    assert (low <= middle).all()
    assert (middle <= high).all()
    assert (high - low < values.max(axis=0) - values.min(axis=0)).all()


def test_two_seeds_have_their_extremes_and_one_has_itself() -> None:
    values = np.array([[1.0, 5.0], [3.0, np.nan]])
    middle, low, high = aggregate(values, "mean", "ci95", seed=0)
    assert (middle.tolist(), low.tolist(), high.tolist()) == ([2, 5], [1, 5], [3, 5])


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    draws = np.random.default_rng(2).normal(size=(300, 12))
    hits = sum(low <= 0 <= high for low, high in (interval(row.tolist(), ids=[str(i)]) for i, row in enumerate(draws)))
    assert 0.85 < hits / 300 <= 0.99


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400))
def test_buckets_lose_no_point_and_no_extreme(values: list[float]) -> None:
    points = Curve(np.arange(len(values), dtype=np.float64), np.array(values))
    buckets, last = cut_into_buckets(points, Window(count=10))
    assert buckets.count.sum() == len(values)
    assert buckets.low.min() == min(values)
    assert buckets.high.max() == max(values)
    assert last[-1] == len(values) - 1
    assert (buckets.first <= buckets.last).all()
