"""`hotloop bench sweep`: trials per second of sweeps, beside Ray Tune and Optuna."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from hotloop.cli.bench_common import look_at_machine
from hotloop.cli.output import UserError, emit, tell


def sweep(
    trials: Annotated[int, typer.Option(metavar="N", help="Trials of a round (100; 40 with --quick).")] = 0,
    repeats: Annotated[int, typer.Option(metavar="N", help="Rounds (3; 1 with --quick).")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Rough and fast.")] = False,
    no_peers: Annotated[bool, typer.Option("--no-peers", help="Measure Hotloop only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Measure trials per second of a sweep, and of Ray Tune and Optuna on the same trials.

    \b
      hotloop bench sweep
      hotloop bench sweep --quick --no-peers

    A trial is cartpole for 100 k steps and an evaluation of 100 episodes.
    Everybody trains with the same session; 'x' is our rate over theirs.
    Ours includes the start of workers, Ray's not that of its cluster.
    """
    if trials < 0 or repeats < 0:
        raise UserError("--trials and --repeats: expected 1 or more")
    trials, repeats = trials or (40 if quick else 100), repeats or (1 if quick else 3)

    from hotloop.bench.peers import sweep_tools
    from hotloop.bench.report import on_machine
    from hotloop.bench.sweep import UNIT, Contestant, compare, halving_seconds, overhead
    from hotloop.cli.progress import PartsProgress
    from hotloop.cli.tables import table

    peers: list[tuple[str, int, Contestant]] = []
    for title, package, run, count in (
        ("Optuna, joblib processes", "optuna", sweep_tools.run_optuna, trials),
        ("Ray Tune", "ray", sweep_tools.run_ray, max(4, trials // 10)),
        ("Ray Tune, reuse_actors", "ray", sweep_tools.run_ray_reusing, trials),
    ):
        if no_peers:
            continue
        if find_spec(package) is None:
            tell(f"{title} is not installed and is left out; pip install 'hotloop[bench]' brings it.")
        else:
            peers.append((title, count, run))
    machine = look_at_machine([], as_json)
    with PartsProgress(3) as progress:
        try:
            rows = compare(peers, trials=trials, rounds=repeats, progress=progress.at)
        finally:
            sweep_tools.end_ray()
        progress.finish_part("rates")
        bare, extra = overhead(max(8, trials // 4))
        progress.finish_part("overhead")
        halving = halving_seconds()
        progress.finish_part("halving")
    if as_json:
        others = [
            {"name": "bare session", "value": bare, "unit": "ms of CPU time"},
            {"name": "beyond it", "value": extra, "unit": "ms of CPU time"},
            {"name": "200 trials with halving", "value": halving, "unit": "s"},
        ]
        entries = [*(row.as_json() for row in rows), *others]
        for entry in entries:
            emit("row", **entry)
        emit("end", rows=entries, machine=vars(machine))
        return
    cells = [[row.name, f"{row.rate.value:.2f}", "" if row.ratio is None else f"{row.ratio:.1f}x"] for row in rows]
    print(*table(["sweep", UNIT, "x"], cells, right=(1, 2)), sep="\n")
    print(f"\nA bare session takes {bare:.1f} ms of CPU time, a trial {extra:.1f} ms more.")
    print(f"200 trials with halving: {halving:.1f} s\n")
    print(on_machine(machine))
