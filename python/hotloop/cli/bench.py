"""`hotloop bench`: measure speed on this machine, beside installed peers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

import typer

from hotloop.cli.bench_common import look_at_machine, measurement_times, usable
from hotloop.cli.output import UserError, emit, known_env, whole_numbers
from hotloop.envs.registry import is_native

if TYPE_CHECKING:
    from hotloop.bench.envs import Row
    from hotloop.bench.peers import Case, Peer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """Measure speed on this machine, beside installed peers."""


@app.command("envs")
def envs(
    names: Annotated[list[str] | None, typer.Argument(metavar="ENV", help="Envs to measure (default: all).")] = None,
    num_envs: Annotated[str | None, typer.Option(metavar="N,...", help="Numbers of envs.")] = None,
    threads: Annotated[str | None, typer.Option(metavar="N,...", help="Numbers of threads.")] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="N", help="Duration of a measurement (0.5; 0.1 with --quick).")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(metavar="N", help="Measurements per contender (7; 3 with --quick).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Rough and fast: one size per env.")] = False,
    peers: Annotated[bool, typer.Option(help="Measure EnvPool and Gymnasium too.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Measure steps per second of envs, beside every installed peer.

    \b
      hotloop bench envs                      all of them, in minutes
      hotloop bench envs cartpole --quick     one of them, in seconds
      hotloop bench envs gymnasium:CartPole-v1     any Python env, in processes
      hotloop bench envs stragglers stragglers-training     ready first or not
      hotloop bench envs taxi tag --num-envs 64,4096 --threads 1,2
      hotloop bench envs cartpole --json | tail -1 | jq .rows

    Ours go through envs.step. They and the peers take turns, round after
    round; shown is the median of the rounds. The spread is the middle half
    of them as a part of the median. A peer's column is our speed as a
    multiple of the peer's. Threads of Python envs are worker processes.
    """
    seconds, repeats = measurement_times(seconds, repeats, (0.5, 7), (0.1, 3), quick)
    counts, numbers = whole_numbers(num_envs, "--num-envs"), whole_numbers(threads, "--threads")

    import hotloop
    from hotloop.bench.envs import IN_PYTHON, plan
    from hotloop.envs.loader import whole_name

    known = [*(env.name for env in hotloop.list_envs()), *IN_PYTHON]
    names = [known_env(name, known) if is_native(whole_name(name)) else name for name in names or []]

    from rich.console import Console

    from hotloop.bench import report
    from hotloop.bench.peers import every_peer
    from hotloop.bench.stragglers import LOCK_STEP

    present = [*(usable(every_peer()) if peers else []), LOCK_STEP]
    machine = look_at_machine(present, as_json)
    cases = plan(names or known, num_envs=counts, threads=numbers, all_threads=machine.usable_cores, quick=quick)
    rows = _measure(cases, present, seconds, repeats, as_json)
    if as_json:
        emit("end", rows=[row.as_json() for row in rows], machine=vars(machine))
        return
    console = Console()
    console.print(report.table(rows, present))
    console.print()
    for line in report.notes(rows, present, machine):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _measure(cases: list[Case], peers: list[Peer[Case]], seconds: float, repeats: int, as_json: bool) -> list[Row]:
    from hotloop.bench.envs import CaseError, run
    from hotloop.cli.progress import PartsProgress
    from hotloop.text import short

    rows = []
    with PartsProgress(len(cases)) as progress:
        for case in cases:
            watch = functools.partial(progress.at, str(case))
            try:
                row = run(case, peers, seconds=seconds, rounds=repeats, progress=watch)
            except CaseError as error:
                raise UserError(str(error)) from error
            rows.append(row)
            progress.finish_part(f"{case}: {short(row.rate.value)} steps/s")
            if as_json:
                emit("row", **row.as_json())
    return rows
