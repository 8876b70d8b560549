"""Shared parts of all `hotloop bench` suites: durations, installed peers, facts about the machine."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from hotloop.cli.output import UserError, emit, tell

if TYPE_CHECKING:
    from hotloop.bench.machine import Machine
    from hotloop.bench.peers import Peer

C = TypeVar("C")


def measurement_times(
    seconds: float | None, repeats: int | None, usual: tuple[float, int], if_quick: tuple[float, int], quick: bool
) -> tuple[float, int]:
    """Return seconds and repeats: as given, or the defaults."""
    default_seconds, default_repeats = if_quick if quick else usual
    seconds = default_seconds if seconds is None else seconds
    repeats = default_repeats if repeats is None else repeats
    if not 0 < seconds < float("inf"):
        raise UserError(f"--seconds is {seconds:g}: expected more than 0")
    if repeats < 1:
        raise UserError(f"--repeats is {repeats}: expected 1 or more")
    return seconds, repeats


def usable(peers: Sequence[Peer[C]]) -> list[Peer[C]]:
    """Return the peers that can be imported; print why others are left out."""
    found = []
    for peer in peers:
        if not peer.installed:
            tell(f"{peer.title} is not installed and is left out; pip install 'hotloop[bench]' brings it.")
            continue
        try:
            importlib.import_module(peer.package)
        except (ImportError, OSError) as error:
            tell(f"{peer.title} is left out, it cannot be imported: {error}")
        else:
            found.append(peer)
    return found


def look_at_machine(peers: Sequence[Peer[C]], as_json: bool) -> Machine:
    """Collect facts about the machine for the report; warn if it is busy."""
    from hotloop.bench.machine import inspect_machine

    machine = inspect_machine({peer.package: peer.version for peer in peers})
    if as_json:
        emit("machine", **vars(machine))
    if machine.is_busy:
        tell(f"Other work keeps {machine.busy_cores} of {machine.cores} cores busy: expect low, uneven numbers.")
    return machine
