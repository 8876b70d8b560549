"""`hotloop runs compare`: results of runs beside the settings in which they differ; seeds are averaged."""

from __future__ import annotations

import math
import shutil
import statistics
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotloop.cli.output import emit, say
from hotloop.cli.runs import JsonOption, RunsArgument, StoreOption, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

MEASURES = ("best", "return", "steps", "seconds")


def compare(
    runs: RunsArgument,
    metrics: Annotated[
        str | None, typer.Option(metavar="KEY,...", help="Further metrics to compare by their last values.")
    ] = None,
    group: Annotated[bool, typer.Option(help="Average runs that differ only in their seed.")] = True,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare runs: their results, and the settings in which they differ.

    \b
      hotloop runs compare 3f2a 91bc
      hotloop runs compare 'cartpole-*' --metrics entropy,steps_per_second

    Runs that differ in nothing but their seed are averaged: mean ± standard
    deviation. A second run of a seed, and one that began with other weights,
    stand for themselves.
    """
    names = [*MEASURES, *(name.strip() for name in (metrics.split(",") if metrics else []))]
    from hotloop.tracking.filters import RunValues
    from hotloop.tracking.groups import find_differences, group_seeds

    with opened(store) as found:
        values = RunValues(found, names)
        chosen = found.find_all(runs)
        groups = group_seeds(chosen) if group else [[run] for run in chosen]
        results = [
            {
                "runs": [run.name for run in members],
                "seeds": [run.seed for run in members],
                "metrics": {name: _spread([values.of(run, name) for run in members]) for name in names},
            }
            for members in groups
        ]
        differing = find_differences([members[0] for members in groups])
    if as_json:
        for entry, settings in zip(results, differing, strict=True):
            emit("group", **entry, settings=settings)
        emit("end", groups=len(results), runs=len(chosen))
        return
    for line in _format(names, results, differing):
        say(line)


def _spread(values: Sequence[Any]) -> dict[str, Any]:
    """Mean and standard deviation of the values that are known."""
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    return {
        "mean": statistics.fmean(known) if known else None,
        "std": statistics.stdev(known) if len(known) > 1 else None,
        "count": len(known),
    }


def _format(names: Sequence[str], results: Sequence[dict[str, Any]], differing: Sequence[dict[str, Any]]) -> list[str]:
    titles = [
        entry["runs"][0] if len(entry["runs"]) == 1 else f"{chr(65 + index % 26)}: {len(entry['runs'])} seeds"
        for index, entry in enumerate(results)
    ]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 1 << 30
    rows = []
    for title, entry in zip(titles, results, strict=True):
        rows.append([title, *(_as_text(entry["metrics"][name]) for name in names)])
    lines = _wrapped_table(["run", *names], rows, width, right=True)
    for title, entry in zip(titles, results, strict=True):
        if len(entry["runs"]) > 1:
            lines += textwrap.wrap(f"{title}, {', '.join(entry['runs'])}", width, subsequent_indent="  ")
    keys = list(differing[0])
    if not keys:
        return [*lines, "The settings are the same."]
    settings = [[key, *(str(one[key]) for one in differing)] for key in keys]
    return [*lines, "", *_wrapped_table(["setting", *titles], settings, width)]


def _wrapped_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, right: bool = False
) -> list[str]:
    """A table that fits the terminal: columns for which there is no room follow below, beside the first again."""
    from hotloop.cli.tables import table

    columns = [list(column) for column in zip(headings, *rows, strict=True)]
    sizes = [max(map(len, column)) + 2 for column in columns]
    lines: list[str] = []
    begin = 1
    while begin < len(columns):
        end = begin + 1
        while end < len(columns) and sizes[0] + sum(sizes[begin : end + 1]) - 2 <= width:
            end += 1
        top, *others = (list(row) for row in zip(columns[0], *columns[begin:end], strict=True))
        lines += [*([""] if lines else []), *table(top, others, right=range(1, end - begin + 1) if right else ())]
        begin = end
    return lines


def _as_text(spread: dict[str, Any]) -> str:
    from hotloop.text import measured, short

    if spread["mean"] is None:
        return "-"
    text = short if abs(spread["mean"]) >= 1e4 else measured
    return text(spread["mean"]) + ("" if spread["std"] is None else f" ± {text(spread['std'])}")
