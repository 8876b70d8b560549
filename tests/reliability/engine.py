"""Running attacks side by side: every case is a function of class, seed and index, so that it can be repeated alone."""

import shutil
import sys
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol


@dataclass(frozen=True)
class Result:
    """A case that was tried: what it did, how much it counts for, and what did not hold."""

    case: str
    problems: Sequence[str]
    count: int = 1


class Attack(Protocol):
    """A class of attacks."""

    name: str

    def prepare(self, folder: Path, seed: int) -> None:
        """Make what all cases share, such as undisturbed runs to compare with."""

    def attack(self, index: int, random: Random, folder: Path) -> Result:
        """Try one case in an empty folder."""

    def close(self) -> None:
        """End what `prepare` or cases started."""


@dataclass
class Tally:
    """Counts of one class."""

    name: str
    wanted: int
    tried: int = 0
    cases: int = 0
    findings: list[Result] = field(default_factory=list)


def run(attack: Attack, wanted: int, *, seed: int, jobs: int, folder: Path, only: int | None = None) -> Tally:
    """Try cases until so many attacks were made; findings are printed as they come, and their folders stay."""
    tally = Tally(attack.name, wanted)
    shared = folder / attack.name
    shared.mkdir(parents=True)
    try:
        attack.prepare(shared, seed)
        _show(tally)
        _try_cases(attack, tally, seed=seed, jobs=jobs, shared=shared, only=only)
    finally:
        attack.close()
    print(file=sys.stderr)
    return tally


def _try_cases(attack: Attack, tally: Tally, *, seed: int, jobs: int, shared: Path, only: int | None) -> None:
    wanted = tally.wanted

    def one(index: int) -> tuple[int, Result]:
        place = shared / str(index)
        place.mkdir()
        try:
            result = attack.attack(index, Random(f"{attack.name} {seed} {index}"), place)
        except Exception:
            result = Result("the harness itself failed", [traceback.format_exc()])
        if not result.problems:
            shutil.rmtree(place, ignore_errors=True)
        return index, result

    waiting: set[Future[tuple[int, Result]]] = set()
    following = 0 if only is None else only
    # A class whose cases count for less than expected ends all the same.
    end = 4 * wanted if only is None else only + 1
    with ThreadPoolExecutor(jobs) as pool:
        while True:
            while len(waiting) < jobs and tally.tried < wanted and following < end:
                waiting.add(pool.submit(one, following))
                following += 1
            if not waiting:
                break
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                index, result = future.result()
                tally.tried += result.count
                tally.cases += 1
                if result.problems:
                    _report(tally, attack.name, seed, index, result, shared / str(index))
            _show(tally)


def table(tallies: Iterable[Tally]) -> str:
    """The counts of all classes."""
    lines = [f"{'class':<14}{'attacks':>9}{'cases':>8}{'findings':>10}"]
    lines += [f"{tally.name:<14}{tally.tried:>9}{tally.cases:>8}{len(tally.findings):>10}" for tally in tallies]
    return "\n".join(lines)


def _report(tally: Tally, name: str, seed: int, index: int, result: Result, place: Path) -> None:
    text = "\n".join(
        [
            f"finding: {result.case}",
            *(f"  {problem}" for problem in result.problems),
            f"  repeat: python -m tests.reliability --case {name}:{index} --seed {seed}    files: {place}",
        ]
    )
    tally.findings.append(result)
    print(f"\r{text}", flush=True)


def _show(tally: Tally) -> None:
    """Show how far a class is: in place on a terminal, else every now and then a line."""
    line = f"{tally.name}: {tally.tried} of {tally.wanted}, {len(tally.findings)} findings"
    if sys.stderr.isatty():
        print(f"\r{line}", end="", file=sys.stderr, flush=True)
    elif tally.cases % 20 == 0:
        print(line, file=sys.stderr, flush=True)
