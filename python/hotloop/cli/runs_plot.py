"""`hotloop runs plot`: curves in the terminal, or as a picture."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hotloop.cli.output import UserError, emit, tell
from hotloop.cli.runs import JsonOption, RunsArgument, StoreOption, all_that_fit, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.tracking.curves import Buckets, Curve
    from hotloop.tracking.store import Store, StoredRun

# Points that a picture has of each curve: more cannot be seen.
PICTURE_POINTS = 2000


def plot(
    runs: RunsArgument,
    metric: Annotated[str, typer.Option(help="What to plot; 'hotloop runs show' lists the metrics.")] = "return_recent",
    x: Annotated[str, typer.Option(metavar="step|time", help="Over steps, or over seconds since the start.")] = "step",
    smooth: Annotated[float, typer.Option(help="From 0, not at all, to nearly 1; the raw line stands behind.")] = 0.0,
    group: Annotated[bool, typer.Option("--group", help="Join runs that differ only in their seed.")] = False,
    low: Annotated[float | None, typer.Option(metavar="VALUE", help="Leave out points below this.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a picture instead.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plot a metric of one or several runs.

    \b
      hotloop runs plot last
      hotloop runs plot last --metric entropy --x time --smooth 0.9
      hotloop runs plot 'mine-*' --group --low -30 --png returns.png

    With --group, seeds are joined: their mean, and in the picture a band of
    one standard deviation.
    """
    if x not in ("step", "time"):
        raise UserError(f"--x is {x!r}: expected step or time")
    if not 0 <= smooth < 1:
        raise UserError(f"--smooth is {smooth:g}: expected 0 or more, and less than 1")
    with opened(store) as found:
        chosen = all_that_fit(found, runs)
        lines = _lines(found, chosen, metric, "step" if x == "step" else "time", low, smooth, group)
    if as_json:
        for line in lines:
            pieces = line.buckets(PICTURE_POINTS)
            emit("curve", title=line.title, x=pieces.x.tolist(), low=pieces.low.tolist(), high=pieces.high.tolist(), mean=pieces.mean.tolist())  # fmt: skip # noqa: E501
        emit("end", curves=len(lines), metric=metric)
    elif png is not None:
        _picture(png, lines, metric, "steps" if x == "step" else "seconds")
        tell(f"in {png}")
    else:
        _terminal(lines, metric, "steps" if x == "step" else "seconds")


class PlotLine:
    """One curve with what stands behind it: the raw line, or the spread of several seeds."""

    def __init__(self, title: str, front: Curve, behind: Curve | None, band: Buckets | None) -> None:
        self.title, self.front, self.behind, self.band = title, front, behind, band

    def buckets(self, count: int) -> Buckets:
        """What is left of it in so many pieces."""
        from hotloop.tracking.curves import buckets

        return self.band or buckets(self.front, count)


def _lines(
    store: Store,
    runs: Sequence[StoredRun],
    metric: str,
    x: Literal["step", "time"],
    low: float | None,
    smooth: float,
    group: bool,
) -> list[PlotLine]:
    from hotloop.tracking.curves import Curve, above, curve, joined, smoothed
    from hotloop.tracking.store import groups_of

    curves = {run.id: curve(store.series(run, metric), run, x) for run in runs}
    for run in runs:
        if not len(curves[run.id].x):
            _refuse(store, run, metric)
        if low is not None:
            curves[run.id] = above(curves[run.id], low)
            if not len(curves[run.id].x):
                raise UserError(f"the run {run.name!r} has no {metric} of {low:g} or more")
    lines = []
    for members in groups_of(runs) if group else [[run] for run in runs]:
        raw = [curves[run.id] for run in members]
        if len(raw) > 1:
            band = joined([smoothed(one, smooth) for one in raw])
            title = f"{members[0].env}, {len(raw)} seeds from {members[-1].name}"
            lines.append(PlotLine(title, Curve(band.x, band.mean), None, band))
        else:
            behind = raw[0] if smooth else None
            lines.append(PlotLine(members[0].name, smoothed(raw[0], smooth), behind, None))
    return lines


def _refuse(store: Store, run: StoredRun, metric: str) -> None:
    from difflib import get_close_matches

    known = store.metric_names(run)
    if not known:
        raise UserError(f"the run {run.name!r} has no records yet")
    near = get_close_matches(metric, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f": it has {', '.join(known)}"
    raise UserError(f"the run {run.name!r} has no metric {metric!r}{hint}")


def _terminal(lines: Sequence[PlotLine], metric: str, along: str) -> None:
    from hotloop.cli.braille import Line, color, draw

    size = shutil.get_terminal_size((100, 30))
    drawn = []
    for index, line in enumerate(lines):
        if line.behind is not None:
            drawn.append(Line(line.title, line.behind, color(index), is_behind=True))
        drawn.append(Line(line.title, line.front, color(index)))
    print(f"{metric} over {along}")
    picture = draw(drawn, width=max(8, min(100, size.columns - 12)), height=16, colored=sys.stdout.isatty())
    print("\n".join(picture))
    if all(len(line.front.x) == 1 for line in lines):
        tell("There is one record only: a smaller track.interval makes more of them.")


def _picture(path: Path, lines: Sequence[PlotLine], metric: str, along: str) -> None:
    from hotloop.errors import RenderError
    from hotloop.rendering.chart import Band, ChartLine, chart
    from hotloop.tracking.curves import buckets

    drawn = []
    for line in lines:
        shown = line.buckets(PICTURE_POINTS)
        behind = shown if line.behind is None else buckets(line.behind, PICTURE_POINTS)
        drawn.append(ChartLine(line.title, shown.x, shown.mean, [Band(behind.x, behind.low, behind.high)]))
    try:
        chart(drawn, up=metric, along=along).save(path, format="png", compress_level=3)
    except RenderError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
