"""`hotloop bench train`, `ladder` and `solve`: training speed on this machine."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotloop.cli.bench_common import look_at_machine, measurement_times, usable
from hotloop.cli.output import UserError, check_env_name, emit, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from hotloop.bench.ladder import Rung
    from hotloop.bench.machine import Machine
    from hotloop.bench.peers import Peer
    from hotloop.bench.ppo import PpoCase
    from hotloop.bench.solve import Solved
    from hotloop.bench.train import TrainRow

Seconds = Annotated[float | None, typer.Option(metavar="N", help="Duration of a measurement (1; 0.3 with --quick).")]
Repeats = Annotated[int | None, typer.Option(metavar="N", help="Measurements per contender (5; 3 with --quick).")]
Quick = Annotated[bool, typer.Option("--quick", help="Rough and fast.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


def train(
    cases: Annotated[
        list[str] | None, typer.Argument(metavar="[CASE]...", help="Only cases with one of these in their name.")
    ] = None,
    seconds: Seconds = None,
    repeats: Repeats = None,
    quick: Quick = False,
    peers: Annotated[bool, typer.Option(help="Measure PPO in torch, JAX and SB3 too.")] = True,
    as_json: Json = False,
) -> None:
    """Measure whole PPO in steps per second, beside every installed peer.

    \b
      hotloop bench train                 in minutes
      hotloop bench train --quick         roughly, and sooner
      hotloop bench train 8x128 update    some of the cases
      hotloop bench train --json | tail -1 | jq .rows

    Cases read: env, envs x horizon, epochs x minibatches. 'peak' is the part
    of the machine's measured multiply-add peak that the arithmetic of the
    policy uses. A peer's column is our speed as a multiple of the peer's.
    """
    seconds, repeats = measurement_times(seconds, repeats, (1.0, 5), (0.3, 3), quick)

    from hotloop.bench.peers import every_trainer
    from hotloop.bench.train import CASES, SHAPES, run, run_update, update_name
    from hotloop.cli.progress import PartsProgress
    from hotloop.text import short

    present = usable(every_trainer()) if peers else []
    parts = [(str(case), functools.partial(run, case, present)) for case in CASES]
    parts += [(update_name(shape), functools.partial(run_update, shape)) for shape in SHAPES]
    if cases:
        names = [name for name, _ in parts]
        parts = [part for part in parts if any(case in part[0] for case in cases)]
        if not parts:
            raise UserError(f"no case has {' or '.join(map(repr, cases))} in its name: {', '.join(names)}")
    machine = look_at_machine(present, as_json)
    rows: list[TrainRow] = []
    with PartsProgress(len(parts)) as progress:
        for name, measure in parts:
            row = measure(seconds=seconds, rounds=repeats, progress=functools.partial(progress.at, name))
            rows.append(row)
            progress.finish_part(f"{row.name}: {short(row.rate.value)} steps/s")
    # Other work on the machine can only lower a peak.
    top = max(row.peak for row in rows)
    rows = [dataclasses.replace(row, peak=top) for row in rows]
    if as_json:
        _emit_rows([row.as_json() for row in rows], machine)
        return
    _print_table(_train_table(rows, present))
    for peer in present:
        rates = [row.peers[peer.name].rate.value for row in rows if peer.name in row.peers]
        print(f"{peer.title}: {peer.conditions}; {', '.join(map(short, rates))} steps/s.")
    print(f"Peak: {top / 1e9:.0f} GFLOP/s.")
    _print_machine(machine)


def ladder(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Env to train on.")] = "cartpole",
    seconds: Seconds = None,
    repeats: Repeats = None,
    quick: Quick = False,
    as_json: Json = False,
) -> None:
    """Measure the presets against each other, as whole runs of the trainer.

    \b
      hotloop bench ladder
      hotloop bench ladder pendulum --quick
    """
    seconds, repeats = measurement_times(seconds, repeats, (1.0, 5), (0.3, 3), quick)
    _check_env(env)

    from hotloop.bench.ladder import RUNGS, climb

    machine = look_at_machine([], as_json)
    rungs = climb(env, seconds=seconds, rounds=repeats, progress=_follow(len(RUNGS) * (repeats + 1)))
    if as_json:
        _emit_rows([rung.as_json() for rung in rungs], machine)
        return
    _print_table(_ladder_table(rungs))
    _print_machine(machine)


def solve(
    envs: Annotated[list[str] | None, typer.Argument(metavar="ENV", help="cartpole, pendulum (default: both).")] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Number of seeds (5; 1 with --quick).")] = None,
    timeout: Annotated[
        float, typer.Option(metavar="N", help="Seconds after which a process counts as failed.")
    ] = 120.0,
    quick: Quick = False,
    peers: Annotated[bool, typer.Option(help="Let peers solve cartpole too.")] = True,
    as_json: Json = False,
) -> None:
    """Measure seconds from process start to solved: imports, training, checkpoint, all.

    \b
      hotloop bench solve                     ours and peers', a few minutes
      hotloop bench solve cartpole --no-peers --seeds 20

    Every seed is a fresh process. Ours is 'hotloop train ENV', which ends when
    the last 100 episodes and 100 fresh ones have the mean return that counts
    as solved. Peers end at the mean of their last 100 episodes.
    """
    from hotloop.bench.solve import GOALS, race

    for env in envs or []:
        check_env_name(env, GOALS)
    seeds = (1 if quick else 5) if seeds is None else seeds
    if seeds < 1:
        raise UserError(f"--seeds is {seeds}: expected 1 or more")

    from hotloop.bench.peers import every_trainer

    present = usable(every_trainer()) if peers else []
    machine = look_at_machine(present, as_json)
    rows: list[tuple[Solved, float | None]] = []
    for env in envs or GOALS:
        found = race(
            env,
            present,
            seeds=seeds,
            timeout=timeout,
            progress=lambda who, seed, env=env: tell(f"{env}, seed {seed}: {who}"),  # type: ignore[misc]
        )
        rows += [(solved, found[0].value) for solved in found]
    if as_json:
        _emit_rows([solved.as_json(ours) for solved, ours in rows], machine)
        return
    _print_table(_solve_table(rows))
    _print_machine(machine)


def _emit_rows(rows: list[dict[str, Any]], machine: Machine) -> None:
    for row in rows:
        emit("row", **row)
    emit("end", rows=rows, machine=vars(machine))


def _check_env(env: str) -> None:
    import hotloop

    check_env_name(env, [entry.name for entry in hotloop.list_envs()])


def _follow(measurements: int) -> functools.partial[None]:
    """Print a line after every quarter of the measurements."""
    done = iter(range(measurements))

    def hear(_: str) -> None:
        number = next(done)
        if number % max(1, measurements // 4) == 0:
            tell(f"{number / measurements:.0%}")

    return functools.partial(hear)


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        # Numbers must not be cut: names give way, and headings of two words take two lines.
        named = heading in ("case", "work", "who")
        table.add_column(
            heading.replace(" ", "\n"),
            no_wrap=not named,
            overflow="fold" if named else "ellipsis",
            justify="left" if named else "right",
        )
    return table


def _train_table(rows: Sequence[TrainRow], peers: Sequence[Peer[PpoCase]]) -> Table:
    from hotloop.bench.report import times
    from hotloop.text import short

    table = _table("case", "steps/s", "spread", "peak", *(peer.title for peer in peers))
    for row in rows:
        table.add_row(
            row.name,
            short(row.rate.value),
            _percent(row.rate.spread),
            _percent(row.share),
            *(times(row.ratio(peer.name)) for peer in peers),
        )
    return table


def _ladder_table(rungs: Sequence[Rung]) -> Table:
    from hotloop.bench.report import times
    from hotloop.text import short

    table = _table("case", "work", "steps/s", "spread", "ratio")
    for rung in rungs:
        table.add_row(rung.preset, rung.work, short(rung.rate.value), _percent(rung.rate.spread), times(rung.ratio))
    return table


def _solve_table(rows: Sequence[tuple[Solved, float | None]]) -> Table:
    from hotloop.bench.report import times

    table = _table("case", "who", "seconds", "from", "to", "solved", "ours is faster")
    for solved, ours in rows:
        found, value = solved.times, solved.value
        table.add_row(
            solved.env,
            solved.who,
            *(("-", "-", "-") if value is None else (f"{value:.2f}", f"{min(found):.2f}", f"{max(found):.2f}")),
            f"{len(found)} of {len(solved.seconds)}",
            times(value / ours) if value and ours and solved.who != "hotloop" else "",
        )
    return table


def _percent(part: float | None, digits: int = 0) -> str:
    return "" if part is None else f"{part:.{digits}%}"


def _print_table(table: Table) -> None:
    from rich.console import Console

    console = Console()
    console.print(table)
    console.print()


def _print_machine(machine: Machine) -> None:
    from hotloop.bench.report import on_machine

    print(on_machine(machine))
