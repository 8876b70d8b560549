"""`hotloop bench tracking`: cost of recording a run, and time to read a large store."""

from __future__ import annotations

import functools
import statistics
import time
from typing import TYPE_CHECKING, Annotated

import typer

from hotloop.cli.bench_common import look_at_machine, measurement_times
from hotloop.cli.output import UserError, emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.bench.store_reads import ReadingRow
    from hotloop.bench.tracking import TrackingRow


def tracking(
    seconds: Annotated[
        float | None, typer.Option(metavar="N", help="Duration of a run (2.5; 1.2 with --quick).")
    ] = None,
    repeats: Annotated[int | None, typer.Option(metavar="N", help="Pairs of runs (10; 6 with --quick).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Rough and fast.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Measure the cost of recording a run, and the time to read a large store.

    \b
      hotloop bench tracking
      hotloop bench tracking --quick

    The same run with records and without, in turns: 'cost' is the part of the
    speed that is lost. 'beside' is the same found within the runs with
    records, where moments in which the recorder is at work are compared with
    those around them: that is surer, for it is hardly disturbed by what else
    the machine does. Each has its 95 % interval. 'CPU' is the part of the CPU
    time that recording takes. Then commands on a store of 1000 runs, one of
    them with 100000 points of a metric: seconds from the start of the process
    to its end.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        raise UserError("the cost of recording is found by the CPU time of threads, which this system does not report")
    seconds, repeats = measurement_times(seconds, repeats, (2.5, 10), (1.2, 6), quick)

    from hotloop.bench.report import on_machine
    from hotloop.bench.store_reads import read_store
    from hotloop.bench.tracking import CASES, added_seconds, compare
    from hotloop.cli.progress import PartsProgress

    machine = look_at_machine([], as_json)
    rows = []
    with PartsProgress(len(CASES) + 2) as progress:
        for name in CASES:
            row = compare(name, seconds=seconds, rounds=repeats, progress=functools.partial(progress.at, name))
            rows.append(row)
            progress.finish_part(f"{name}: {statistics.median(row.beside):.1%}")
        added = added_seconds(rounds=min(repeats, 7), progress=functools.partial(progress.at, "a run"))
        progress.finish_part("start and end")
        reading = read_store(rounds=min(repeats, 5), progress=functools.partial(progress.at, "reading"))
        progress.finish_part("reading")
    if as_json:
        ends = {"name": "start and end", "value": statistics.median(added), "unit": "s", "rounds": added}
        bare = reading[0].value
        entries = [*(row.as_json() for row in rows), ends, *(found.as_json(bare) for found in reading)]
        for entry in entries:
            emit("row", **entry)
        emit("end", rows=entries, machine=vars(machine))
        return
    _print(rows, added, reading)
    print(on_machine(machine))


def _print(rows: Sequence[TrackingRow], added: Sequence[float], reading: Sequence[ReadingRow]) -> None:
    from hotloop.cli.tables import table
    from hotloop.text import short

    costs = [
        [
            row.name,
            short(row.recorded.value),
            short(row.unrecorded.value),
            *_with_interval(row.costs),
            *_with_interval(row.beside),
            f"{statistics.median(row.shares):.1%}",
        ]
        for row in rows
    ]
    headings = ["case", "steps/s", "without", "cost", "95 %", "beside", "95 %", "CPU"]
    print(*table(headings, costs, right=range(1, len(headings))), sep="\n")
    print(f"\nA run's start and end take {statistics.median(added):.2f} s longer with records.\n")
    bare = reading[0].value
    times = [[found.name, f"{found.value:.2f}", f"{found.value / bare:.1f}x"] for found in reading]
    print(*table(["command", "seconds", "of --help"], times, right=(1, 2)), "", sep="\n")


def _with_interval(parts: Sequence[float]) -> tuple[str, str]:
    """Return the median and its 95 % interval as text."""
    from hotloop.bench.measure import middle

    found = middle(parts)
    return f"{statistics.median(parts):.1%}", "" if found is None else f"{found[0]:.1%} to {found[1]:.1%}"
