"""`hotloop bench serve`: speed and cost of the server on a large store."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hotloop.cli.bench_common import look_at_machine
from hotloop.cli.output import emit


def serve(
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the points, and shorter.")] = False,
    pages: Annotated[bool, typer.Option(help="Measure pages in Chromium, where it is installed.")] = True,
    peers: Annotated[bool, typer.Option(help="Measure TensorBoard and MLflow, too, where they are installed.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Measure the server: answers and pages over a large store, memory, CPU with live runs.

    \b
      hotloop bench serve
      hotloop bench serve --quick --no-peers

    The store has 1000 runs, one of them with 40 metrics of 100000 points and
    one of a million; then 50 runs that write a record each second while 20
    clients watch; then 10000 runs. Pages are timed in a real browser, from
    navigation to what they are opened for. Each figure stands beside its goal.
    Takes about 7 minutes.
    """
    from hotloop.cli.serve import check_installed

    check_installed()
    from hotloop.bench.report import on_machine
    from hotloop.bench.serve import measure
    from hotloop.bench.serve_pages import missing
    from hotloop.cli.progress import PartsProgress
    from hotloop.cli.tables import table

    machine = look_at_machine([], as_json)
    if pages and (reason := missing()) is not None:
        print(reason, file=sys.stderr)
        pages = False
    with PartsProgress(1) as bar:
        rows = measure(
            quick=quick, pages=pages, peers=peers, progress=lambda what, share: bar.at("server", what, share)
        )
    if as_json:
        reported = [row.as_json() for row in rows]
        for entry in reported:
            emit("row", **entry)
        emit("end", rows=reported, machine=vars(machine))
        return
    lines = [
        [row.name, f"{row.value:.3g} {row.unit}", "" if row.goal is None else f"{row.goal:g} {row.unit}"]
        for row in rows
    ]
    print(*table(["figure", "measured", "at most"], lines, right=(1, 2)), "", sep="\n")
    print(on_machine(machine))
