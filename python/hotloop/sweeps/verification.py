"""Verification of a sweep: run its definition again from nothing, and compare every line."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hotloop.sweeps.journal import SweepFolder
from hotloop.sweeps.sweep import END, Sweep, run_sweep

if TYPE_CHECKING:
    from hotloop.sweeps.sweep import Listener
    from hotloop.training.interrupts import Interrupts

# Fields of a line that depend on the machine.
MACHINE: Final = ("seconds", "cpu", "memory")


@dataclass(frozen=True)
class SweepVerification:
    """The comparison of a sweep with its repetition."""

    lines: int
    """Number of results that were compared."""
    differences: tuple[str, ...]
    """The first few results that differ, with the field."""


def verify_sweep(sweep: Sweep, listener: Listener, interrupts: Interrupts | None = None) -> SweepVerification:
    """Repeat a sweep in a folder of its own, and compare settings, values and weights of every trial."""
    with tempfile.TemporaryDirectory(prefix="hotloop-verify-") as home:
        folder = SweepFolder.create(sweep.definition, name=sweep.name, given_home=home, prior=sweep.folder.prior())
        again = Sweep(folder, trust=True)
        if not run_sweep(again, slots=None, listener=listener, interrupts=interrupts):
            raise KeyboardInterrupt
        found = []
        compared = {task: line for task, line in sweep.results.items() if task != END}
        for task, line in compared.items():
            other = again.results.get(task)
            what = "there is no such result" if other is None else _difference(line, other)
            if what is not None:
                found.append(f"{task}: {what}")
        if sweep.is_complete:
            found += [f"{task}: its line is missing" for task in again.results if task not in sweep.results]
    return SweepVerification(len(compared), tuple(found))


def _difference(line: dict[str, Any], other: dict[str, Any]) -> str | None:
    for key in dict.fromkeys((*line, *other)):
        if key not in MACHINE and line.get(key) != other.get(key):
            return f"{key} was {line.get(key)!r}, is {other.get(key)!r}"
    return None
