"""`hotloop runs list` and `delete`: the runs of the store."""

from __future__ import annotations

import contextlib
import math
import operator
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hotloop.cli.output import UserError, emit, tell

if TYPE_CHECKING:
    from hotloop.tracking.store import Store, StoredRun

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
# Which of them are left out first where a terminal is too narrow.
_LEAVING: Final = ("seconds", "env", "created", "seed", "id", "steps")
_SHORT: Final = {"return": "return_recent"}
_OPERATORS: Final = {
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


@app.callback()
def _runs() -> None:
    """Find runs, compare, plot, export and delete them."""


@contextlib.contextmanager
def opened(store: str | None) -> Iterator[Store]:
    """The store, with its mistakes told in a line."""
    from hotloop.errors import StoreError
    from hotloop.tracking.store import Store

    try:
        with Store(store) as found:
            for note in found.notes:
                tell(note)
            yield found
    except StoreError as error:
        raise UserError(str(error)) from None


def all_that_fit(store: Store, texts: Sequence[str]) -> list[StoredRun]:
    """The runs that are meant, each once; a name with * in it means every run that fits."""
    from fnmatch import fnmatchcase

    found: dict[str, StoredRun] = {}
    for text in texts:
        fitting = [run for run in store.runs() if fnmatchcase(run.name, text)] if "*" in text else [store.find(text)]
        if not fitting:
            raise UserError(f"no run's name is like {text!r}")
        found |= {run.id: run for run in fitting}
    return list(found.values())


@app.command("list")
def list_runs(
    filters: Annotated[
        list[str] | None, typer.Argument(metavar="[FILTER]...", help="env=cartpole, best>=400, ppo.epochs=4, ...")
    ] = None,
    sort: Annotated[str, typer.Option(metavar="KEY", help="By what; -KEY has the largest first.")] = "-created",
    columns: Annotated[str | None, typer.Option(metavar="KEY,...", help="What to show of each run.")] = None,
    limit: Annotated[int, typer.Option(help="How many at most.")] = 30,
    every: Annotated[bool, typer.Option("--all", help="Show all that fit.")] = False,
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
    names = [name.strip() for name in columns.split(",")] if columns else list(COLUMNS)
    conditions = [_condition(text) for text in filters or []]
    descending, key = sort.startswith("-"), sort.removeprefix("-")
    with opened(store) as found:
        values = Values(found)
        for name in (*names, key, *(condition[0] for condition in conditions)):
            values.must_be_known(name)
        runs = [run for run in values.runs if all(_fits(values.of(run, c[0]), *c[1:]) for c in conditions)]
        runs.sort(key=lambda run: _order(values.of(run, key), descending), reverse=descending)
        some = runs if every else runs[:limit]
        rows = [[values.of(run, name) for name in names] for run in some]
    if as_json:
        for row in rows:
            emit("run", **dict(zip(names, map(finite, row), strict=True)))
        emit("end", runs=len(runs), shown=len(some))
        return
    from hotloop.cli.tables import table

    if not runs:
        tell("No run fits." if conditions else "There are no runs yet: 'hotloop train cartpole' makes one.")
        return
    texts = [[name, *(shown(name, row[place]) for row in rows)] for place, name in enumerate(names)]
    numbers = {name for place, name in enumerate(names) if any(isinstance(row[place], int | float) for row in rows)}
    kept = texts if columns or not sys.stdout.isatty() else _fitting(texts, shutil.get_terminal_size().columns)
    right = [place for place, (name, *_) in enumerate(kept) if name in numbers]
    names, *lines = (list(line) for line in zip(*kept, strict=True))
    print("\n".join(table(names, lines, right)))
    if len(some) < len(runs):
        tell(f"{len(runs) - len(some)} more: --all shows them.")


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
        chosen = all_that_fit(found, runs)
        if not yes:
            if not sys.stdin.isatty():
                raise UserError(f"this deletes {', '.join(run.name for run in chosen)} for good: say so with --yes")
            for run in chosen:
                tell(f"{run.name}: {run.env}, {run.steps} steps, {run.path}")
            typer.confirm("Delete for good?", abort=True)
        for run in chosen:
            found.delete(run)
            if not as_json:
                print(f"deleted {run.name}")
    if as_json:
        emit("end", deleted=[run.id for run in chosen])


def _fitting(columns: list[list[str]], width: int) -> list[list[str]]:
    """The columns for which a terminal is wide enough."""
    for name in _LEAVING:
        if sum(max(map(len, column)) + 2 for column in columns) - 2 <= width:
            break
        columns = [column for column in columns if column[0] != name]
    return columns


class Values:
    """What any key gives of a run: a column, a setting, or the last value of a metric."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.runs = store.runs()
        self._latest: dict[str, dict[int, float]] = {}

    def must_be_known(self, key: str) -> None:
        """Refuses a key that no run has, with the nearest one that exists."""
        column = _SHORT.get(key, key)
        if column in PLAIN or not self.runs or any(key in run.settings for run in self.runs):
            return
        metrics = self._store.metric_names()
        if key not in metrics:
            from difflib import get_close_matches

            settings = {name for run in self.runs for name in run.settings}
            near = get_close_matches(key, [*COLUMNS, *PLAIN, *settings, *metrics], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UserError(f"no run has {key!r}: it is no column, no setting and no metric{hint}")
        self._latest[key] = self._store.latest(key)

    def of(self, run: StoredRun, key: str) -> Any:
        """The value; nothing if this run has none."""
        column = _SHORT.get(key, key)
        if column in PLAIN:
            return str(run.path) if column == "path" else getattr(run, column)
        if key in self._latest:
            return self._latest[key].get(run.number)
        return run.settings.get(key)


PLAIN: Final = (
    "id", "name", "env", "seed", "status", "ended", "created", "seen", "steps", "iterations", "episodes", "seconds",
    "return_recent", "best", "host", "process", "path",
)  # fmt: skip


def _condition(text: str) -> tuple[str, str, str]:
    found = re.fullmatch(r"([\w.]+)\s*(!=|>=|<=|=|>|<)\s*(.*)", text)
    if found is None:
        raise UserError(f"{text!r} is no filter: expected KEY=VALUE, KEY>VALUE or the like")
    return found[1], found[2], found[3]


def _fits(value: Any, sign: str, wanted: str) -> bool:
    from fnmatch import fnmatchcase

    if value is None:
        return sign == "!=" or (sign == "=" and wanted in ("", "null"))
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if sign in ("=", "!="):
            return fnmatchcase(text, wanted) == (sign == "=")
        return bool(_OPERATORS[sign](text, wanted))
    try:
        return bool(_OPERATORS[sign](value, float(wanted)))
    except ValueError:
        raise UserError(f"{wanted!r} is no number, but what it is compared with is") from None


def _order(value: Any, descending: bool) -> tuple[bool, Any]:
    """Runs that have no such value come last, whichever way it goes."""
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    is_text = not isinstance(value, int | float)
    return (missing != descending, "" if missing else str(value) if is_text else value)


def finite(value: Any) -> Any:
    """The same with null for numbers that are not finite, which JSON cannot hold."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shown(name: str, value: Any) -> str:
    """A value of a column in words."""
    from hotloop.text import duration, measured

    if value is None:
        return "-"
    if name in ("created", "seen"):
        return f"{datetime.fromtimestamp(value):%Y-%m-%d %H:%M}"
    if name == "seconds":
        return duration(value)
    return measured(value) if isinstance(value, float) else str(value)
