"""Benchmark results as a table with notes."""

from collections.abc import Sequence

from rich.table import Table

from hotloop.bench.envs import Row
from hotloop.bench.machine import Machine
from hotloop.bench.peers import Case, Peer
from hotloop.text import short


def table(rows: Sequence[Row], peers: Sequence[Peer[Case]]) -> Table:
    """One line per case, one column per measured peer."""
    measured = [peer for peer in peers if any(peer.name in row.peers for row in rows)]
    result = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    # Names of Python envs can be long; numbers must not be cut.
    result.add_column("env", overflow="fold")
    for heading in ("envs", "threads", "steps/s", "spread"):
        result.add_column(heading, justify="right", no_wrap=True)
    for peer in measured:
        # Two lines, so that the table fits 80 columns.
        result.add_column(peer.title.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in rows:
        spread = row.rate.spread
        result.add_row(
            row.case.env,
            str(row.case.num_envs),
            str(row.case.threads),
            short(row.rate.value),
            "" if spread is None else f"{spread:.0%}",
            *(times(row.ratio(peer.name)) for peer in measured),
        )
    return result


def times(ratio: float | None) -> str:
    """Format a speed ratio; empty for None."""
    return "" if ratio is None else f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def notes(rows: Sequence[Row], peers: Sequence[Peer[Case]], machine: Machine) -> list[str]:
    """Notes on how peers were measured, the machine and versions."""
    lines = []
    for peer in peers:
        rates = [row.peers[peer.name].rate.value for row in rows if peer.name in row.peers]
        if rates:
            lines.append(f"{peer.title}: {peer.conditions}; {short(max(rates))} steps/s at best.")
    return [*lines, on_machine(machine)]


def on_machine(machine: Machine) -> str:
    """Describe machine and versions in one sentence."""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return f"{machine.cpu}, {machine.usable_cores} of {machine.cores} cores, {machine.isa}; {versions}."
