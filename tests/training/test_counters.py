"""Counters of a run: sums that survive interruptions, and new versions."""

from typing import Any

import numpy as np
import pytest

from hotloop.training.counters import Since


def finished(*extra: float) -> Any:
    """Return one finished episode with these sums of terms and metrics."""
    episodes = {"returns": np.array([3.0]), "lengths": np.array([5])}
    sums = {"count": 1, "length": 5, "total": 3.0, "square": 9.0, "min": 3.0, "max": 3.0}
    return {**episodes, **sums, "extra": list(extra)}


def test_sums_of_an_earlier_version_go_on_where_this_one_has_more_metrics() -> None:
    since = Since(extra=[2.0])
    since.add_episodes(finished(1.0, 4.0))
    assert since.extra == [3.0, 4.0]


def test_sums_of_a_version_with_more_metrics_are_not_mixed_up() -> None:
    with pytest.raises(ValueError, match="zip"):
        Since(extra=[2.0, 1.0]).add_episodes(finished(1.0))
