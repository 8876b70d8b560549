"""`hotloop bench faults`: inject faults into a run's envs and count what survives."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from hotloop.cli.bench_common import look_at_machine
from hotloop.cli.output import UserError, emit

if TYPE_CHECKING:
    from hotloop.bench.faults import Outcome


def faults(
    count: Annotated[int, typer.Option("--faults", metavar="N", help="Number of faults.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Inject faults into the envs of one training run and check that nothing is lost.

    \b
      hotloop bench faults                    1000 of them, some three minutes
      hotloop bench faults --faults 200

    Envs raise, exit, are killed (SIGKILL, SIGSEGV) and hang, by chance. Every
    fault must be reported; no run may end, and no process, shared memory or
    file may be left over. Ends with 1 if anything was.
    """
    if count < 1:
        raise UserError(f"--faults is {count}: expected 1 or more")

    from hotloop.bench.faults import run
    from hotloop.cli.progress import PartsProgress

    machine = look_at_machine([], as_json)
    with PartsProgress(1) as progress:
        found = run(count, lambda done: progress.at("faults", str(done), min(1.0, done / count)))
        progress.finish_part(f"{sum(found.injected.values())} faults")
    if as_json:
        facts = dataclasses.asdict(found)
        rows = [
            {"name": "restarts", "value": found.restarts / found.seconds, "unit": "1/s", "spread": None, "ratio": {}}
        ]
        emit("end", rows=rows, **facts, unreported=found.unreported, survived=found.survived, machine=vars(machine))
    else:
        for line in lines(found):
            print(line)
    if not found.survived:
        raise typer.Exit(1)


def lines(found: Outcome) -> list[str]:
    """Format the outcome as lines of text."""
    injected = ", ".join(f"{how} {count}" for how, count in found.injected.items())
    leaked = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.leaked.items())
    said = [
        f"injected    {sum(found.injected.values())}: {injected}",
        f"reported    {sum(found.reported.values())}, unreported {found.unreported}",
        f"lost runs   {found.lost_runs}",
        f"left over   {leaked}",
        f"replaced    {found.restarts} worker processes, {found.restarts / found.seconds:.1f} a second",
        f"trained     {found.steps} steps in {found.seconds:.0f} s meanwhile",
    ]
    return said if not found.why_lost else [*said, "", found.why_lost]
