"""`hotloop runs export`: records of runs in files for other programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotloop.cli.output import UserError, emit, tell
from hotloop.cli.runs import JsonOption, RunsArgument, StoreOption, opened
from hotloop.files import output_file
from hotloop.tracking.parquet import parquet_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.tracking.store import Store, StoredRun

COLUMNS = ("run", "name", "key", "step", "time", "value")


def export(
    runs: RunsArgument,
    to: Annotated[Path, typer.Option(metavar="FILE", help="FILE.csv, FILE.json or FILE.parquet.", show_default=False)],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the records of runs to a file.

    \b
      hotloop runs export last --to metrics.csv
      hotloop runs export 3f2a 91bc --to runs.json

    CSV and Parquet have the metrics, a line per point: run, name, key, step,
    time, value. JSON has everything: settings, evaluations, events and so on.
    """
    kinds = {".csv": _to_csv, ".json": _to_json, ".parquet": _to_parquet}
    if to.suffix not in kinds:
        raise UserError(f"--to is {to}: expected a name that ends in {', '.join(kinds)}")
    with opened(store) as found:
        chosen = found.find_all(runs)
        try:
            with output_file(to) as part:
                count = kinds[to.suffix](part, found, chosen)
        except OSError as error:
            raise UserError(f"cannot write {to}: {error.strerror}") from None
    if as_json:
        emit("end", file=str(to), runs=len(chosen), points=count)
    else:
        tell(f"{count} points of {len(chosen)} {'run' if len(chosen) == 1 else 'runs'} in {to}")


def _points(store: Store, runs: Sequence[StoredRun]) -> Iterator[tuple[Any, ...]]:
    for run in runs:
        yield from ((run.id, run.name, *point) for point in store.points(run))


def _to_csv(path: Path, store: Store, runs: Sequence[StoredRun]) -> int:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        count = 0
        for count, point in enumerate(_points(store, runs), 1):  # noqa: B007
            writer.writerow(point)
    return count


def _to_json(path: Path, store: Store, runs: Sequence[StoredRun]) -> int:
    exported = []
    count = 0
    for run in runs:
        metrics: dict[str, list[list[float]]] = {}
        for key, step, at, value in store.points(run):
            metrics.setdefault(key, []).append([step, at, value])
            count += 1
        columns = {key: value for key, value in vars(run).items() if key not in ("number", "config_text", "facts_text")}
        exported.append(
            {
                **columns,
                "path": str(run.path),
                "config": run.config,
                "facts": run.facts,
                "metrics": metrics,
                "evaluations": store.evaluations(run),
                "episodes": store.episodes(run),
                "checkpoints": store.checkpoints(run),
                "events": store.events(run),
                "resources": store.resources(run),
            }
        )
    path.write_text(json.dumps(exported, indent=1) + "\n")
    return count


def _to_parquet(path: Path, store: Store, runs: Sequence[StoredRun]) -> int:
    count = 0

    def counted() -> Iterator[tuple[Any, ...]]:
        nonlocal count
        for point in _points(store, runs):
            count += 1
            yield point

    chunks = parquet_chunks(dict(zip(COLUMNS, (str, str, str, int, float, float), strict=True)), counted())
    with path.open("wb") as file:
        file.writelines(chunks)
    return count
