"""Differences between runs: the first record that is not the same, and the metrics that differ most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hotloop.tracking.change_points import ChangePoint, is_clock
from hotloop.tracking.chart_series import RESAMPLES
from hotloop.tracking.queries import bucketed
from hotloop.tracking.store import KEY_NUMBER

if TYPE_CHECKING:
    from hotloop.tracking.store import Store, StoredRun

# Speeds differ between equal runs.
_SPEEDS: Final = ("steps_per_second",)
_POINTS: Final = 200


@dataclass(frozen=True)
class FirstDifference:
    """The first step at which two runs have different records; `None` if there is none."""

    step: int | None
    metrics: list[tuple[str, float, float]]
    """Metrics that differ there, with both values."""


def comparable_metrics(store: Store, runs: Sequence[StoredRun]) -> list[str]:
    """Metrics that all runs have and that equal runs have equal."""
    names = [set(store.metric_names(run)) for run in runs]
    common = set.intersection(*names) if names else set()
    return sorted(name for name in common if not is_clock(name) and name not in _SPEEDS)


def first_difference(store: Store, one: StoredRun, other: StoredRun) -> FirstDifference:
    """The first difference between the records of two runs."""
    found: list[tuple[int, str, float, float]] = []
    is_joint = False
    for name in comparable_metrics(store, (one, other)):
        rows = store.query(
            "SELECT a.step, a.value, b.value FROM metrics AS a JOIN metrics AS b "
            "ON b.run = ? AND b.key = a.key AND b.step = a.step "
            f"WHERE a.run = ? AND a.key = {KEY_NUMBER} AND a.value <> b.value ORDER BY a.step LIMIT 1",
            *(other.number, one.number, name),
        )
        found += [(step, name, a, b) for step, a, b in rows]
        is_joint = is_joint or bool(rows) or _has_common_step(store, one, other, name)
    if not found and is_joint:
        return FirstDifference(None, [])
    if not found:
        steps = [step for run in (one, other) if (step := _first_step(store, run)) is not None]
        return FirstDifference(min(steps, default=None), [])
    first = min(step for step, *_ in found)
    return FirstDifference(first, [(name, a, b) for step, name, a, b in found if step == first])


def _has_common_step(store: Store, one: StoredRun, other: StoredRun, name: str) -> bool:
    rows = store.query(
        "SELECT 1 FROM metrics AS a JOIN metrics AS b ON b.run = ? AND b.key = a.key AND b.step = a.step "
        f"WHERE a.run = ? AND a.key = {KEY_NUMBER} LIMIT 1",
        *(other.number, one.number, name),
    )
    return bool(rows)


def _first_step(store: Store, run: StoredRun) -> int | None:
    return store.query("SELECT min(step) FROM metrics WHERE run = ?", run.number)[0][0]  # type: ignore[no-any-return]


def rank_differences(
    store: Store,
    one: StoredRun,
    other: StoredRun,
    *,
    low: float | None = None,
    high: float | None = None,
    first: int | None = None,
) -> list[ChangePoint]:
    """Metrics in which two runs differ most in a window, in units of their spread."""
    names = comparable_metrics(store, (one, other))
    begin = first if low is None and first is not None else low
    sides = [bucketed(store, run, names, "step", begin, high, _POINTS) for run in (one, other)]
    found = []
    for name in names:
        a, b = (side[name].mean for side in sides)
        if not len(a) or not len(b):
            continue
        spread = float(np.sqrt((a.var() + b.var()) / 2)) or abs(float(a.mean())) * 1e-9 or 1e-12
        gap = float(b.mean() - a.mean())
        if gap:
            step = int(sides[0][name].first[0])
            found.append(ChangePoint(name, step, float(a.mean()), float(b.mean()), min(abs(gap) / spread, 1e9)))
    return sorted(found, key=lambda change: (-change.score, change.metric))


def probability_above(first: Sequence[float], second: Sequence[float], *, seed: int) -> float | None:
    """The bootstrap probability that the mean of one group's results exceeds another's; `None` for single runs."""
    if len(first) < 2 or len(second) < 2:
        return None
    generator = np.random.default_rng(seed)
    means = [
        np.array(values)[generator.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1)
        for values in (first, second)
    ]
    return float(np.mean(means[0] > means[1]) + 0.5 * np.mean(means[0] == means[1]))
