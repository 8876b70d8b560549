"""`hotloop runs list`, `show` and `delete`: the runs of the store."""

from __future__ import annotations

import contextlib
import math
import operator
import re
import sys
from collections.abc import Iterator
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
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="An id, a name, the beginning of one, or 'last'.")]
RunsArgument = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="Ids, names, beginnings of them, or 'last'.", show_default=False)
]

COLUMNS: Final = ("id", "name", "env", "seed", "status", "created", "steps", "return", "best", "seconds")
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
    from hotloop.tracking.errors import StoreError
    from hotloop.tracking.store import Store

    try:
        with Store(store) as found:
            for note in found.notes:
                tell(note)
            yield found
    except StoreError as error:
        raise UserError(str(error)) from None


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
        shown = runs if every else runs[:limit]
        rows = [[values.of(run, name) for name in names] for run in shown]
    if as_json:
        for row in rows:
            emit("run", **dict(zip(names, map(_plain, row), strict=True)))
        emit("end", runs=len(runs), shown=len(shown))
        return
    from hotloop.cli.tables import table

    if not runs:
        tell("No run fits." if conditions else "There are no runs yet: 'hotloop train cartpole' makes one.")
        return
    texts = [[_shown(name, value) for name, value in zip(names, row, strict=True)] for row in rows]
    right = [i for i in range(len(names)) if any(isinstance(row[i], int | float) for row in rows) and names[i] != "id"]
    print("\n".join(table(names, texts, right)))
    if len(shown) < len(runs):
        tell(f"{len(runs) - len(shown)} more: --all shows them.")


@app.command()
def show(run: RunArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show all about one run: how it went, its settings, evaluations, checkpoints and events.

    \b
      hotloop runs show last
      hotloop runs show 3f2a --json | jq .config
    """
    from hotloop.text import plain

    with opened(store) as found:
        one = found.find(run)
        told = {
            **{name: getattr(one, name) for name in _PLAIN},
            "path": str(one.path),
            "return": one.return_recent,
            **one.facts,
            "config": one.config,
            "metrics": {name: float(found.series(one, name).values[-1]) for name in found.metric_names(one)},
            "evaluations": found.evaluations(one),
            "checkpoints": found.checkpoints(one),
            "events": found.events(one),
            "resources": found.resources(one)[-16:],
        }
    if as_json:
        emit("end", **plain(told))
        return
    for line in _in_words(told):
        print(line)


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
        chosen = list({run.id: run for run in map(found.find, runs)}.values())
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


class Values:
    """What any key gives of a run: a column, a setting, or the last value of a metric."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.runs = store.runs()
        self._latest: dict[str, dict[int, float]] = {}

    def must_be_known(self, key: str) -> None:
        """Refuses a key that no run has, with the nearest one that exists."""
        column = _SHORT.get(key, key)
        if column in _PLAIN or not self.runs or any(key in run.settings for run in self.runs):
            return
        metrics = self._store.metric_names()
        if key not in metrics:
            from difflib import get_close_matches

            settings = {name for run in self.runs for name in run.settings}
            near = get_close_matches(key, [*COLUMNS, *_PLAIN, *settings, *metrics], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UserError(f"no run has {key!r}: it is no column, no setting and no metric{hint}")
        self._latest[key] = self._store.latest(key)

    def of(self, run: StoredRun, key: str) -> Any:
        """The value; nothing if this run has none."""
        column = _SHORT.get(key, key)
        if column in _PLAIN:
            return str(run.path) if column == "path" else getattr(run, column)
        if key in self._latest:
            return self._latest[key].get(run.number)
        return run.settings.get(key)


_PLAIN: Final = (
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


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(name: str, value: Any) -> str:
    from hotloop.text import duration, measured

    if value is None:
        return "-"
    if name in ("created", "seen"):
        return f"{datetime.fromtimestamp(value):%Y-%m-%d %H:%M}"
    if name == "seconds":
        return duration(value)
    return measured(value) if isinstance(value, float) else str(value)


def _in_words(told: dict[str, Any]) -> Iterator[str]:
    from hotloop.cli.braille import short_signed
    from hotloop.text import duration, measured, short

    ended = f" ({told['ended']})" if told["ended"] else ""
    yield f"{told['name']}  {told['id']}"
    yield f"{told['env']}, seed {told['seed']}: {told['status']}{ended}"
    yield f"begun {_shown('created', told['created'])} on {told['host']}, process {told['process']}"
    yield (
        f"{short(told['steps'])} steps, {told['episodes']} episodes in {duration(told['seconds'])}, "
        f"return {_shown('return', told['return'])}, best evaluation {_shown('best', told['best'])}"
    )
    yield f"in {told['path']}"
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    yield f"{versions}; revision {told['git'] or 'unknown'}"
    for facts in told["evaluations"][-5:]:
        how = "" if facts["source"] == "training" else " by hotloop eval"
        yield (
            f"evaluation at step {short(facts['step'])}{how}: {_shown('mean', facts['mean'])} over {facts['episodes']} "
            f"episodes (95 %: {_shown('low', facts['low'])} to {_shown('high', facts['high'])})"
        )
    for facts in told["checkpoints"][-3:]:
        yield f"checkpoint {facts['path']}{', the best' if facts['is_best'] else ''}"
    for facts in told["events"][-10:]:
        yield f"{facts['level']} at step {short(facts['step'])}: {facts['what']}"
    for facts in told["resources"][-1:]:
        last = [entry for entry in told["resources"] if entry["time"] == facts["time"]]
        yield "; ".join(
            f"{entry['who']}: {measured(entry['cpu'], 3) if entry['cpu'] is not None else '-'} cores, "
            f"{(entry['memory'] or 0) / 2**20:.0f} MB"
            for entry in last
        )
    yield "last record:"
    for name, value in told["metrics"].items():
        yield f"  {name} {short_signed(value) if abs(value) >= 1e4 else measured(value)}"
    yield "settings:"
    for part, values in told["config"].items():
        yield f"  {part}: {', '.join(f'{key}={value}' for key, value in values.items())}"
