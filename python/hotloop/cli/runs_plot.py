"""`hotloop runs plot`: curves in the terminal, or as a picture."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotloop.cli.output import UserError, emit, say, tell
from hotloop.cli.runs import JsonOption, RunsArgument, StoreOption, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.tracking.curves import PlotLine

# Points of each curve in a picture: more cannot be seen.
PICTURE_POINTS = 2000


def plot(
    runs: RunsArgument,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="Metric to plot; 'hotloop runs show' lists them.")
    ] = "return_recent",
    x: Annotated[str, typer.Option(metavar="step|time", help="X axis: steps, or seconds since the start.")] = "step",
    smooth: Annotated[float, typer.Option(help="Smoothing weight, 0 to 0.999; the raw line is drawn behind.")] = 0.0,
    group: Annotated[bool, typer.Option("--group", help="Average runs that differ only in their seed.")] = False,
    low: Annotated[float | None, typer.Option(metavar="VALUE", help="Leave out points below this value.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a PNG instead.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plot a metric of one or several runs.

    \b
      hotloop runs plot last
      hotloop runs plot last --metric entropy --x time --smooth 0.9
      hotloop runs plot 'mine-*' --group --low -30 --png returns.png

    With --group, seeds are averaged; the picture has a band of one standard
    deviation. Where runs end, the mean goes on with those that are left.
    """
    if x not in ("step", "time"):
        raise UserError(f"--x is {x!r}: expected step or time")
    if not 0 <= smooth < 1:
        raise UserError(f"--smooth is {smooth:g}: expected 0 or more, and less than 1")
    from hotloop.tracking.curves import prepare_lines

    with opened(store) as found:
        chosen = found.find_all(runs)
        lines = prepare_lines(found, chosen, metric, x=x, low=low, smooth=smooth, by_seed=group)
    if as_json:
        for line in lines:
            buckets = line.buckets(PICTURE_POINTS)
            columns = {name: getattr(buckets, name).tolist() for name in ("x", "low", "high", "mean", "count")}
            emit("curve", title=line.title, **columns)
        emit("end", curves=len(lines), metric=metric)
    elif png is not None:
        _picture(png, lines, metric, "steps" if x == "step" else "seconds")
        tell(f"in {png}")
    else:
        _terminal(lines, metric, "steps" if x == "step" else "seconds")


def _terminal(lines: Sequence[PlotLine], metric: str, along: str) -> None:
    from hotloop.cli.braille import Line, color, draw
    from hotloop.text import printable

    size = shutil.get_terminal_size((100, 30))
    drawn = []
    for index, line in enumerate(lines):
        # Room for the scale and the mark before it.
        title = printable(line.title, max(20, size.columns - 16))
        if line.behind is not None:
            drawn.append(Line(title, line.behind, color(index), is_behind=True))
        drawn.append(Line(title, line.front, color(index)))
    say(f"{metric} over {along}")
    is_terminal = sys.stdout.isatty()
    # The heading, the scale below, the legend, and the next prompt.
    height = max(4, min(16, size.lines - len(lines) - 4)) if is_terminal else 16
    picture = draw(
        drawn, width=max(8, min(100, size.columns - 12)), height=height, colored=is_terminal, ascii_only=_is_ascii()
    )
    print("\n".join(picture))
    if all(len(line.front.x) == 1 for line in lines):
        tell("There is one record only: a smaller track.interval makes more of them.")


def _is_ascii() -> bool:
    """Whether standard output cannot show dots."""
    try:
        "⠿│└─".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return True
    return False


def _picture(path: Path, lines: Sequence[PlotLine], metric: str, along: str) -> None:
    from hotloop.errors import RenderError
    from hotloop.files import output_file
    from hotloop.rendering.chart import Band, ChartLine, chart
    from hotloop.tracking.curves import buckets

    drawn = []
    for line in lines:
        shown = line.buckets(PICTURE_POINTS)
        behind = shown if line.behind is None else buckets(line.behind, PICTURE_POINTS)
        drawn.append(ChartLine(line.title, shown.x, shown.mean, [Band(behind.x, behind.low, behind.high)]))
    try:
        picture = chart(drawn, up=metric, along=along)
        with output_file(path) as part:
            picture.save(part, format="png", compress_level=3)
    except RenderError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
