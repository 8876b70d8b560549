"""`hotloop bench orchestrator`: latencies of the queue, and the adaptive limit against fixed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from hotloop.cli.bench_common import look_at_machine
from hotloop.cli.output import UserError, emit

if TYPE_CHECKING:
    from hotloop.bench.orchestrator import Mix

_MIXES: Final = "ABCDE"


def orchestrator(
    mixes: Annotated[str, typer.Option(metavar="LETTERS", help="Mixes of jobs: any of ABCDE, or none.")] = _MIXES,
    jobs: Annotated[int, typer.Option(metavar="N", help="Jobs of each mix.")] = 32,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions, no mixes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Measure the queue and the adaptive limit.

    \b
      hotloop bench orchestrator
      hotloop bench orchestrator --quick
      hotloop bench orchestrator --mixes AB --jobs 16

    Mixes: A native envs on one thread, B a Python env that waits 80 % of a
    step, C as B with 2.5 GB each, D as A beside a busy neighbour in the middle
    third, E half A and half B. Each runs under fixed limits and the adaptive
    one, in turns.
    """
    from hotloop.bench.orchestrator import measure_figures, measure_mix
    from hotloop.bench.report import on_machine
    from hotloop.cli.progress import PartsProgress
    from hotloop.cli.tables import table

    chosen = "" if quick or mixes == "none" else mixes.upper()
    if unknown := [letter for letter in chosen if letter not in _MIXES]:
        raise UserError(f"--mixes is {mixes!r}: there is no mix {unknown[0]}, expected letters of {_MIXES}, or none")
    if jobs < 1:
        raise UserError(f"--jobs is {jobs}: expected 1 or more")
    machine = look_at_machine([], as_json)
    with PartsProgress(1 + len(chosen)) as bar:
        figures = measure_figures(lambda what: bar.at("figures", what, 0.0), quick=quick)
        bar.finish_part("figures")
        measured = []
        for letter in chosen:
            measured.append(measure_mix(letter, lambda what: bar.at("mixes", what, 0.0), jobs=jobs))
            bar.finish_part(f"mix {letter}")
    if as_json:
        rows = [{**vars(figure), "met": figure.is_met} for figure in figures]
        for row in rows:
            emit("row", **row)
        for mix in measured:
            emit("mix", **vars(mix), against_best=mix.against_best, against_worst=mix.against_worst)
        emit("end", rows=rows, mixes=[vars(mix) for mix in measured], machine=vars(machine))
        return
    lines = [
        [figure.name, f"{figure.value:.4g} {figure.unit}", f"{'>=' if figure.at_least else '<='} {figure.goal:g}"]
        for figure in figures
    ]
    print(*table(["figure", "measured", "goal"], lines, right=(1, 2)), "", sep="\n")
    if measured:
        print(
            *table(["mix", *measured[0].makespans, "best", "worst", "deaths", "cores"], _rows(measured)), "", sep="\n"
        )
        print("Seconds per limit; adaptive over best and worst fixed limit; cores that its orchestrator used.")
    print(on_machine(machine))


def _rows(mixes: list[Mix]) -> list[list[str]]:
    return [
        [
            mix.name,
            *(f"{seconds:.1f}" for seconds in mix.makespans.values()),
            f"{mix.against_best:.2f}x",
            f"{mix.against_worst:.2f}x",
            str(mix.killed),
            f"{mix.cores:.4f}",
        ]
        for mix in mixes
    ]
