"""`hotloop runs compare`: what runs came to, beside what they were told differently; seeds are taken together."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotloop.cli.output import emit
from hotloop.cli.runs import JsonOption, RunsArgument, StoreOption, Values, all_that_fit, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.tracking.store import StoredRun

MEASURES = ("best", "return", "steps", "seconds")


def compare(
    runs: RunsArgument,
    metrics: Annotated[
        str | None, typer.Option(metavar="KEY,...", help="More to compare: metrics' last values.")
    ] = None,
    group: Annotated[bool, typer.Option(help="Take runs that differ only in their seed together.")] = True,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare runs: what they came to, and in which settings they differ.

    \b
      hotloop runs compare 3f2a 91bc
      hotloop runs compare 'cartpole-*' --metrics entropy,steps_per_second

    Runs that differ in nothing but their seed stand together, as mean and
    standard deviation.
    """
    names = [*MEASURES, *(name.strip() for name in (metrics.split(",") if metrics else []))]
    with opened(store) as found:
        from hotloop.tracking.store import groups_of

        values = Values(found)
        for name in names:
            values.must_be_known(name)
        chosen = all_that_fit(found, runs)
        groups = groups_of(chosen) if group else [[run] for run in chosen]
        told = [
            {
                "runs": [run.name for run in members],
                "seeds": [run.seed for run in members],
                "metrics": {name: _spread([values.of(run, name) for run in members]) for name in names},
            }
            for members in groups
        ]
    differing = _differences([members[0] for members in groups])
    if as_json:
        for entry, settings in zip(told, differing, strict=True):
            emit("group", **entry, settings=settings)
        emit("end", groups=len(told), runs=len(chosen))
        return
    for line in _in_words(names, told, differing):
        print(line)


def _spread(values: Sequence[Any]) -> dict[str, Any]:
    """Mean and standard deviation of what is known."""
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    return {
        "mean": statistics.fmean(known) if known else None,
        "std": statistics.stdev(known) if len(known) > 1 else None,
        "count": len(known),
    }


def _differences(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """The settings of each in which not all are the same."""
    settings = [run.settings for run in runs]
    keys = sorted({key for one in settings for key in one} - {"train.seed"})
    differing = [key for key in keys if any(one.get(key) != settings[0].get(key) for one in settings)]
    if "env.name" in differing:
        # Options that only some of the envs have say nothing.
        differing = [key for key in differing if not key.startswith("env.") or all(key in one for one in settings)]
    return [{key: one.get(key) for key in differing} for one in settings]


def _in_words(names: Sequence[str], told: Sequence[dict[str, Any]], differing: Sequence[dict[str, Any]]) -> list[str]:
    from hotloop.cli.tables import table

    titles = [
        entry["runs"][0] if len(entry["runs"]) == 1 else f"{chr(65 + index % 26)}: {len(entry['runs'])} seeds"
        for index, entry in enumerate(told)
    ]
    rows = []
    for title, entry in zip(titles, told, strict=True):
        rows.append([title, *(_as_text(entry["metrics"][name]) for name in names)])
    lines = table(["run", *names], rows, right=range(1, len(names) + 1))
    lines += [f"{title}, {', '.join(e['runs'])}" for title, e in zip(titles, told, strict=True) if len(e["runs"]) > 1]
    keys = list(differing[0])
    if not keys:
        return [*lines, "The settings are the same."]
    settings = [[key, *(str(one[key]) for one in differing)] for key in keys]
    return [*lines, "", *table(["setting", *titles], settings)]


def _as_text(spread: dict[str, Any]) -> str:
    from hotloop.text import measured, short

    if spread["mean"] is None:
        return "-"
    text = short if abs(spread["mean"]) >= 1e4 else measured
    return text(spread["mean"]) + ("" if spread["std"] is None else f" ± {text(spread['std'])}")
