"""Rows of a benchmark as a table for people, and the sentences that belong under it."""

from collections.abc import Sequence

from rich.table import Table

from hotloop.bench.envs import Row
from hotloop.bench.machine import Machine
from hotloop.bench.peers import Peer

PREFIXES = ((1e9, " G"), (1e6, " M"), (1e3, " k"))


def short(value: float) -> str:
    """A number with three digits that count: 171 M, 46.9 k, 812.

    >>> [short(x) for x in (171_300_000, 46_870, 999_900, 812.4, 0.5)]
    ['171 M', '46.9 k', '1.00 M', '812', '0.500']
    """
    # Rounded first, so that what rounds up to a thousand gets the next prefix.
    value = float(f"{value:.3g}")
    for size, prefix in PREFIXES:
        if value >= size:
            return _three_digits(value / size) + prefix
    return _three_digits(value)


def _three_digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")


def table(rows: Sequence[Row], peers: Sequence[Peer]) -> Table:
    """One line per case, one column per peer that was measured at all."""
    measured = [peer for peer in peers if any(peer.name in row.peers for row in rows)]
    result = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    result.add_column("env", no_wrap=True)
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
            *(_times(row.ratio(peer.name)) for peer in measured),
        )
    return result


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def notes(rows: Sequence[Row], peers: Sequence[Peer], machine: Machine) -> list[str]:
    """What the numbers depend on: how peers were measured, the machine, and the versions."""
    lines = []
    for peer in peers:
        rates = [row.peers[peer.name].rate.value for row in rows if peer.name in row.peers]
        if rates:
            lines.append(f"{peer.title}: {peer.conditions}; {short(max(rates))} steps/s at best.")
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    lines.append(f"{machine.cpu}, {machine.usable_cores} of {machine.cores} cores, {machine.isa}; {versions}.")
    return lines
