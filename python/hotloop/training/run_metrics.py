"""Metrics of a run, read from its journal: as a table, and as a picture."""

from __future__ import annotations

from collections import defaultdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import numpy as np

from hotloop.errors import QueryError
from hotloop.tracking import journal
from hotloop.tracking.curves import Curve, buckets, smoothed
from hotloop.tracking.trackers import points

# Points of a curve in a picture: more cannot be seen.
_POINTS: Final = 2000


def read_metrics(run: Path) -> Any:
    """Return the metrics of a run by step: a pandas DataFrame, or a dict of arrays where pandas is not installed."""
    columns = _columns(run)
    steps = sorted({step for values in columns.values() for step in values})
    table = {
        name: np.array([values.get(step, np.nan) for step in steps], np.float64) for name, values in columns.items()
    }
    try:
        import pandas
    except ModuleNotFoundError:
        return {"steps": np.array(steps, np.int64), **table}
    return pandas.DataFrame(table, index=pandas.Index(steps, name="steps"))


def draw_metric(run: Path, metric: str, smooth: float) -> Any:
    """Return a picture of a metric over the steps of a run, as a Pillow image."""
    from hotloop.rendering.chart import Band, ChartLine, chart

    if not 0 <= smooth < 1:
        raise ValueError(f"smooth is {smooth:g}: expected 0 or more, and less than 1")
    columns = _columns(run)
    if metric not in columns:
        near = get_close_matches(metric, columns, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f": it has {', '.join(columns) or 'no records'}"
        raise QueryError(f"the run {run.name!r} has no metric {metric!r}{hint}")
    steps, values = zip(*sorted(columns[metric].items()), strict=True)
    raw = Curve(np.array(steps, np.float64), np.array(values, np.float64))
    shown, behind = buckets(smoothed(raw, smooth), _POINTS), buckets(raw, _POINTS)
    line = ChartLine(run.name, shown.x, shown.mean, [Band(behind.x, behind.low, behind.high)])
    return chart([line], up=metric, along="steps")


def _columns(run: Path) -> dict[str, dict[int, float]]:
    """Return the values of every metric by step; of two at the same step the later counts."""
    columns: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for event in journal.read_all(run / journal.NAME):
        if event["event"] in ("iteration", "evaluation", "values"):
            for name, value in points(event):
                columns[name][event["steps"]] = value
    return columns
