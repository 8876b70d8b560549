"""`hotloop runs list` and `delete`, and what the `hotloop runs` commands share."""

from __future__ import annotations

import contextlib
import io
import math
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hotloop.cli.output import UserError, count, emit, say, tell

if TYPE_CHECKING:
    from hotloop.tracking.store import Store

app = typer.Typer(no_args_is_help=True)

StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="A file or postgresql://...; else HOTLOOP_STORE.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="An id, a name, the beginning of one, or 'last'.")]
RunsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...", help="Ids, names, beginnings of them, 'last', or names with * in them.", show_default=False
    ),
]

COLUMNS: Final = ("id", "name", "env", "seed", "status", "created", "steps", "return", "best", "seconds")
# The order in which columns are dropped where a terminal is too narrow.
_DROPPED: Final = ("seconds", "env", "created", "seed", "id", "steps")
# Characters of a cell: names from elsewhere may be of any length.
_LONGEST_CELL: Final = 100


@app.callback()
def _runs() -> None:
    """Find runs, compare, plot, export and delete them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character shows another in its place.
            stream.reconfigure(errors="replace")


@contextlib.contextmanager
def opened(store: str | None) -> Iterator[Store]:
    """The store; its errors become one-line messages."""
    from hotloop.errors import StoreError
    from hotloop.tracking.store import Store

    try:
        with Store(store) as found:
            for note in found.notes:
                tell(note)
            try:
                yield found
            except (ArithmeticError, LookupError, TypeError, ValueError):
                # A damaged file may hold anything; whatever else raises these is a bug.
                if (damage := found.find_damage()) is None:
                    raise
                raise UserError(damage) from None
    except StoreError as error:
        raise UserError(str(error)) from None


@app.command("list")
def list_runs(
    filters: Annotated[
        list[str] | None, typer.Argument(metavar="FILTER", help="env=cartpole, best>=400, ppo.epochs=4, ...")
    ] = None,
    sort: Annotated[str, typer.Option(metavar="KEY", help="Sort by this key; -KEY: largest first.")] = "-created",
    columns: Annotated[str | None, typer.Option(metavar="KEY,...", help="Columns to show.")] = None,
    limit: Annotated[int, typer.Option(parser=count, metavar="N", help="Maximum number of runs.")] = 30,
    every: Annotated[bool, typer.Option("--all", help="Show all matching runs.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, the newest first.

    \b
      hotloop runs list
      hotloop runs list env=cartpole status=completed 'best>=475' --sort -best
      hotloop runs list --columns name,best,ppo.learning_rate,entropy

    A KEY is a column (id, name, env, seed, status, ended, created, steps,
    iterations, episodes, seconds, return, best, host, path), a dotted key of
    the config, or a metric, of which the last value counts. Filters compare
    with = != > >= < <=; names may have * in them.
    """
    if limit < 1:
        raise UserError(f"--limit is {limit}: expected 1 or more")
    from hotloop.tracking.queries import page

    names = [name.strip() for name in columns.split(",")] if columns else list(COLUMNS)
    with opened(store) as found:
        shown_page = page(found, where=filters or [], sort=sort, columns=names, limit=None if every else limit)
    rows, total = shown_page.values, shown_page.total
    if as_json:
        for row in rows:
            emit("run", **dict(zip(names, map(finite, row), strict=True)))
        emit("end", runs=total, shown=len(rows))
        return
    from hotloop.cli.tables import table

    if not rows:
        tell("No run matches." if filters else "There are no runs yet: 'hotloop train cartpole' makes one.")
        return
    texts = [[name, *(shown(name, row[index]) for row in rows)] for index, name in enumerate(names)]
    numbers = {name for index, name in enumerate(names) if any(isinstance(row[index], int | float) for row in rows)}
    kept = texts if columns or not sys.stdout.isatty() else _fit_columns(texts, shutil.get_terminal_size().columns)
    right = [index for index, (name, *_) in enumerate(kept) if name in numbers]
    names, *lines = (list(line) for line in zip(*kept, strict=True))
    say("\n".join(table(names, lines, right)))
    if len(rows) < total:
        tell(f"{total - len(rows)} more: --all shows them.")


@app.command()
def delete(
    runs: RunsArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete runs: from the store, and their folders with all checkpoints.

    \b
      hotloop runs delete 3f2a
      hotloop runs delete last --yes
    """
    with opened(store) as found:
        chosen = found.find_all(runs)
        if not yes:
            if not sys.stdin.isatty():
                raise UserError(f"this deletes {', '.join(run.name for run in chosen)} for good: confirm with --yes")
            for run in chosen:
                tell(f"{run.name}: {run.env}, {run.steps} steps, {run.path}")
            if not typer.confirm("Delete for good?"):
                return
        for run in chosen:
            found.delete(run)
            if not as_json:
                say(f"deleted {run.name}")
    if as_json:
        emit("end", deleted=[run.id for run in chosen])


def _fit_columns(columns: list[list[str]], width: int) -> list[list[str]]:
    """The columns for which a terminal is wide enough."""
    for name in _DROPPED:
        if sum(max(map(len, column)) + 2 for column in columns) - 2 <= width:
            break
        columns = [column for column in columns if column[0] != name]
    return columns


def finite(value: Any) -> Any:
    """A value with null for numbers that are not finite, which JSON cannot hold."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shown(name: str, value: Any) -> str:
    """The text of a cell."""
    from hotloop.text import duration, measured, printable

    if value is None:
        return "-"
    if name in ("created", "seen"):
        try:
            return f"{datetime.fromtimestamp(value):%Y-%m-%d %H:%M}"
        except (OSError, OverflowError, ValueError):
            return "?"  # a clock, or a damaged journal, far outside of all calendars
    if name == "seconds":
        return duration(value)
    return measured(value) if isinstance(value, float) else printable(str(value), _LONGEST_CELL)
