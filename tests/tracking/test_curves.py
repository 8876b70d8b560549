"""Curves: buckets keep extremes, smoothing forgets, seeds are joined."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.tracking.curves import Curve, average, buckets, curve, smoothed
from hotloop.tracking.store import Series

FINITE = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(st.integers(0, 10**9), FINITE), min_size=1, unique_by=lambda p: p[0]), st.integers(1, 50))
def test_buckets_keep_the_extremes_and_all_points(points: list[tuple[int, float]], count: int) -> None:
    points.sort()
    given_curve = Curve(np.array([float(x) for x, _ in points]), np.array([y for _, y in points]))
    found = buckets(given_curve, count)
    assert 1 <= len(found.x) <= count
    assert found.low.min() == given_curve.y.min()
    assert found.high.max() == given_curve.y.max()
    margin = 1e-9 * (1 + abs(found.mean))
    assert (found.low <= found.mean + margin).all()
    assert (found.mean <= found.high + margin).all()
    assert (np.diff(found.x) > 0).all()


def test_a_curve_with_as_many_buckets_as_points_is_itself() -> None:
    found = buckets(Curve(np.arange(4.0), np.array([3.0, 1.0, 2.0, 5.0])), 4)
    assert found.x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert found.mean.tolist() == [3.0, 1.0, 2.0, 5.0]


@given(st.lists(FINITE, min_size=1), st.floats(0, 0.999))
def test_smoothing_stays_between_the_extremes_and_begins_with_the_first(values: list[float], weight: float) -> None:
    found = smoothed(Curve(np.arange(len(values), dtype=float), np.array(values)), weight).y
    assert found[0] == pytest.approx(values[0])
    assert min(values) - 1e-3 <= found.min() <= found.max() <= max(values) + 1e-3


def test_a_constant_stays_as_it_is() -> None:
    assert smoothed(Curve(np.arange(9.0), np.full(9, 7.0)), 0.9).y == pytest.approx(np.full(9, 7.0))


def test_seeds_are_averaged_from_where_all_have_begun_to_the_end_of_the_longest() -> None:
    one = Curve(np.array([0.0, 10.0]), np.array([0.0, 10.0]))
    two = Curve(np.array([2.0, 8.0]), np.array([4.0, 4.0]))
    found = average([one, two], points=5)
    assert found.x.tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert found.mean.tolist() == pytest.approx([3.0, 4.0, 5.0, 6.0, 10.0])
    spread = [2 * np.std([x, 4.0], ddof=1) for x in (2, 4, 6, 8)]
    assert (found.high - found.low).tolist() == pytest.approx([*spread, 0.0])
    assert found.count.tolist() == [2, 2, 2, 2, 1]


def test_a_clock_that_was_set_back_never_runs_backwards_in_a_curve() -> None:
    series = Series(np.arange(4), np.array([105.0, 110.0, 20.0, 25.0]), np.arange(4.0))
    assert curve(series, SimpleNamespace(created=100.0), "time").x.tolist() == [5.0, 10.0, 10.0, 15.0]  # type: ignore[arg-type]
