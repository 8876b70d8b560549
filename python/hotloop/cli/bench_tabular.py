"""`hotloop bench tabular`: speed and scaling of tabular learning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotloop.cli.bench_common import look_at_machine, measurement_times
from hotloop.cli.output import UserError, emit, tell, whole_numbers

if TYPE_CHECKING:
    from rich.table import Table

    from hotloop.bench.tabular import Row

_PEERS = {
    "plain C": "The same in plain C, on one thread",
    "python-loop": "The usual loop in Python (Gymnasium, NumPy)",
    "dist_classicrl-1": "dist_classicrl, 1 env",
    "dist_classicrl-128": "dist_classicrl, 128 envs",
}
ENVS = ("tictactoe", "frozen-lake", "cliff-walking", "taxi")


def tabular(
    env: Annotated[str, typer.Argument(metavar="ENV", help="tictactoe, frozen-lake, cliff-walking or taxi.")] = ENVS[0],
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of threads (default: one per core).")
    ] = None,
    ranks: Annotated[
        str | None, typer.Option(metavar="N,...", help="Numbers of MPI ranks (default: 1 to the number of cores).")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="N", help="Duration of a measurement (0.5; 0.1 with --quick).")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(metavar="N", help="Measurements per contender (5; 3 with --quick).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Rough and fast: one algorithm.")] = False,
    mpi: Annotated[bool, typer.Option(help="Measure MPI ranks too.")] = True,
    peers: Annotated[bool, typer.Option(help="Measure a plain Python loop and dist_classicrl too.")] = True,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the speed-ups to this PNG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Measure steps per second of algorithms, tables, threads and MPI ranks.

    \b
      hotloop bench tabular
      hotloop bench tabular --quick --no-mpi
      hotloop bench tabular --plot scaling.png

    Speed-up is against one thread, or one rank, with the same table; efficiency
    (eff.) is that per thread or rank; spread is the middle half of the
    measurements, as a part of the median. Native cases take turns, MPI's come after them.
    """
    seconds, repeats = measurement_times(seconds, repeats, (0.5, 5), (0.1, 3), quick)
    if env not in ENVS:
        raise UserError(f"ENV is {env!r}: expected one of {', '.join(ENVS)}")
    numbers = whole_numbers(ranks, "--ranks")
    if threads is not None and threads < 1:
        raise UserError(f"--threads is {threads}: expected 1 or more")

    from hotloop.bench.peers import plain_c
    from hotloop.bench.tabular import mpirun, plan, run
    from hotloop.bench.tabular import peers as others

    machine = look_at_machine([], as_json)
    most = threads or machine.usable_cores
    if mpi and mpirun() is None:
        tell("MPI is left out: there is no mpirun or no mpi4py; pip install 'hotloop[mpi]' brings both.")
        mpi = False
    counts = (numbers or list(range(1, machine.usable_cores + 1))) if mpi else []
    cases = plan(env, most, quick=quick, ranks=counts)
    peers = peers and env == "tictactoe"
    beside = []
    if peers and (reason := plain_c.missing()):
        tell(f"{plain_c.NAME} is left out: {reason}.")
    elif peers:
        beside.append(plain_c.contender())
    rows, rates = run(cases, seconds=seconds, rounds=repeats, beside=beside)
    if peers:
        rates |= others(min(2.0, 4 * seconds), tell)
    if plot is not None:
        _draw(rows, plot)
    if as_json:
        entries = [row.as_json() for row in rows]
        for entry in entries:
            entry["ratio"] = {name: entry["value"] / rate for name, rate in rates.items()}
            emit("row", **entry)
        emit("end", rows=entries, machine=vars(machine), peers=rates, plot=plot and str(plot))
        return
    from rich.console import Console

    from hotloop.bench.report import on_machine, times
    from hotloop.text import short

    console = Console()
    console.print(_table(rows))
    for name, rate in rates.items():
        print(f"{_PEERS[name]}: {short(rate)} steps/s; our one thread makes {times(rows[0].rate.value / rate)}.")
    print(on_machine(machine))


def _draw(rows: list[Row], path: Path) -> None:
    from hotloop.bench.tabular import plot

    try:
        plot(rows, path)
    except ImportError:
        raise UserError("--plot needs matplotlib: pip install 'hotloop[plot]'") from None
    tell(f"The plot is in {path}.")


def _table(rows: list[Row]) -> Table:
    from rich.table import Table

    from hotloop.text import short

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("algorithm", "table", "runtime"):
        table.add_column(heading, no_wrap=True)
    for heading in ("n", "steps/s", "spread", "speed-up", "eff.", "MB"):
        table.add_column(heading, no_wrap=True, justify="right")
    for row in rows:
        case, spread = row.case, row.rate.spread
        table.add_row(
            case.algorithm.replace("double-q-learning", "double-q"),
            f"{case.table} {case.storage}",
            case.runtime,
            str(case.workers),
            short(row.rate.value),
            "" if spread is None else f"{spread:.0%}",
            "" if row.speedup is None else f"{row.speedup:.2f}x",
            "" if row.efficiency is None else f"{row.efficiency:.0%}",
            f"{row.memory / 1e6:.1f}",
        )
    return table
