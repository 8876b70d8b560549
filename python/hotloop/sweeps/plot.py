"""Pictures of a sweep as PNG: history, importance, Pareto front, parallel coordinates, and a slice per dimension."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from hotloop.sweeps.results import Trial
    from hotloop.sweeps.space import Dimension
    from hotloop.sweeps.sweep import Sweep

_COLUMNS = 4


def plot_sweep(sweep: Sweep, path: Path) -> None:
    """Write all panels into one picture."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigError("plots need Matplotlib, which is not installed: pip install 'hotloop[plot]'") from None
    trials = sweep.trials
    ended = [trial for trial in trials if trial.value is not None]
    if not ended:
        raise ConfigError(f"the sweep {sweep.name!r} has no trial to plot yet")
    dimensions = sweep.definition.space.dimensions
    slices = math.ceil(len(dimensions) / _COLUMNS)
    figure = Figure(figsize=(16, 3.6 * (2 + slices)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2 + slices, _COLUMNS)
    figure.suptitle(f"{sweep.name}: {sweep.definition.env}, {len(trials)} trials")
    _history(figure.add_subplot(grid[0, :2]), sweep, ended)
    _importance(figure.add_subplot(grid[0, 2]), sweep)
    _front(figure.add_subplot(grid[0, 3]), sweep, ended)
    _parallel(figure.add_subplot(grid[1, :]), sweep, ended)
    for number, dimension in enumerate(dimensions):
        axes = figure.add_subplot(grid[2 + number // _COLUMNS, number % _COLUMNS])
        _slice(axes, sweep, dimension, ended)
    figure.savefig(path, dpi=100, format="png")


def _shown(sweep: Sweep, trial: Trial) -> float:
    assert trial.value is not None
    return -trial.value if sweep.definition.sweep.metric == "steps" else trial.value


def _history(axes: Any, sweep: Sweep, ended: list[Trial]) -> None:
    values = np.array([_shown(sweep, trial) for trial in ended])
    best = np.minimum if sweep.definition.sweep.metric == "steps" else np.maximum
    indices = [trial.index for trial in ended]
    axes.plot(indices, values, "o", markersize=3, alpha=0.6, label="trials")
    axes.step(indices, best.accumulate(values), where="post", label="best so far")
    found = [(trial.index, trial.confirmation) for trial in ended if trial.confirmation is not None]
    if found:
        sign = -1 if sweep.definition.sweep.metric == "steps" else 1
        means = [sign * each.mean for _, each in found]
        margins = [each.high - each.mean for _, each in found]
        axes.errorbar(
            [index for index, _ in found], means, margins, fmt="D", markersize=4, capsize=3, label="confirmed"
        )
    axes.set(title="history", xlabel="trial", ylabel=sweep.definition.sweep.metric)
    axes.legend(fontsize="small")


def _importance(axes: Any, sweep: Sweep) -> None:
    shares = sorted(sweep.importance.items(), key=lambda each: each[1])
    axes.barh([name for name, _ in shares], [share for _, share in shares])
    axes.set(title="importance", xlim=(0, 1))
    axes.tick_params(axis="y", labelsize="small")


def _front(axes: Any, sweep: Sweep, ended: list[Trial]) -> None:
    axes.plot([trial.cost for trial in ended], [_shown(sweep, trial) for trial in ended], "o", markersize=3, alpha=0.5)
    front = sweep.front
    axes.step([trial.cost for trial in front], [_shown(sweep, trial) for trial in front], "r.-", where="post")
    axes.set(title="front", xlabel="modelled cost (s)", ylabel=sweep.definition.sweep.metric)


def _parallel(axes: Any, sweep: Sweep, ended: list[Trial]) -> None:
    from matplotlib import colormaps

    dimensions = sweep.definition.space.dimensions
    values = np.array([_shown(sweep, trial) for trial in ended])
    ranks = values.argsort().argsort() / max(1, len(values) - 1)
    if sweep.definition.sweep.metric == "steps":
        ranks = 1.0 - ranks
    order = ranks.argsort()
    for number in order.tolist():
        settings = ended[number].settings
        heights = [
            each.distribution.unit(each.value_in(settings)) if each.is_in(settings) else math.nan for each in dimensions
        ]
        color = colormaps["viridis"](ranks[number])
        axes.plot(range(len(heights)), heights, "o-", color=color, alpha=0.15 + 0.6 * ranks[number], markersize=2)
    axes.set(title="parallel coordinates (yellow: best)", ylim=(-0.05, 1.05), yticks=[])
    axes.set_xticks(
        range(len(dimensions)), [f"{each.name}\n{each.distribution}" for each in dimensions], fontsize="small"
    )


def _slice(axes: Any, sweep: Sweep, dimension: Dimension, ended: list[Trial]) -> None:
    present = [trial for trial in ended if dimension.is_in(trial.settings)]
    distribution = dimension.distribution
    values = [dimension.value_in(trial.settings) for trial in present]
    if distribution.kind == "choice":
        xs = [distribution.options.index(value) for value in values]
        axes.set_xticks(
            range(len(distribution.options)), [str(each)[:16] for each in distribution.options], fontsize="small"
        )
    else:
        xs = [1.0 - value for value in values] if distribution.kind == "log1m" else values
        if distribution.kind in ("log", "log1m", "logint", "pow2"):
            from matplotlib.ticker import NullFormatter

            axes.set_xscale("log")
            axes.set_xlim(
                *distribution.bounds if distribution.kind != "pow2" else (distribution.low, distribution.high)
            )
            # Labels between powers of ten would overlap.
            axes.xaxis.set_minor_formatter(NullFormatter())
    axes.plot(xs, [_shown(sweep, trial) for trial in present], "o", markersize=3, alpha=0.6)
    axes.set(xlabel=f"1 - {dimension.name}" if distribution.kind == "log1m" else dimension.name)
