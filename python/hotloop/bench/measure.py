"""Timing several contenders fairly: each is warmed up, then they take turns, round after round.

Taking turns matters more than long measurements: whatever else the machine does in a round, it does to all of them.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter
from typing import Any


@dataclass(frozen=True)
class Contender:
    """Work that can be repeated, prepared so that only the work itself is timed.

    A pass calls `call` once with each of `inputs`. If a pass must begin from a certain state, `rewind` goes back to it
    before each pass, and is not timed.
    """

    name: str
    call: Callable[[Any], object]
    inputs: Sequence[Any]
    work_per_pass: float
    rewind: Callable[[], object] | None = None

    def seconds(self, passes: int) -> float:
        """Return the seconds that this many passes take."""
        if self.rewind is None:
            return self._timed(passes)
        total = 0.0
        for _ in range(passes):
            self.rewind()
            total += self._timed(1)
        return total

    def _timed(self, passes: int) -> float:
        call = self.call
        start = perf_counter()
        for inputs in repeat(self.inputs, passes):
            for item in inputs:
                call(item)
        return perf_counter() - start


@dataclass(frozen=True)
class Rate:
    """Work per second, as measured in each round."""

    rounds: tuple[float, ...]

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float | None:
        """Interquartile range relative to the median; None for a single round."""
        if len(self.rounds) < 2:
            return None
        low, _, high = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return (high - low) / self.value


def measure(
    contenders: Sequence[Contender],
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[Contender], object] = lambda contender: None,
) -> list[Rate]:
    """Measure every contender for about `seconds` in each round, after a warm-up of at least half of that.

    `progress` hears of every measurement before it begins: one warm-up and `rounds` rounds per contender.
    """
    if seconds <= 0 or rounds < 1:
        raise ValueError(f"measuring needs seconds > 0 and at least one round, not {seconds} and {rounds}")
    passes = []
    for contender in contenders:
        progress(contender)
        passes.append(_warm_up(contender, seconds))
    rates: list[list[float]] = [[] for _ in contenders]
    for turn in range(rounds):
        for place in range(len(contenders)):
            # Rotate the order, so that no contender always follows the same neighbour.
            index = (place + turn) % len(contenders)
            contender = contenders[index]
            progress(contender)
            elapsed = contender.seconds(passes[index])
            rates[index].append(contender.work_per_pass * passes[index] / elapsed)
    return [Rate(tuple(values)) for values in rates]


def _warm_up(contender: Contender, seconds: float) -> int:
    """Warm up until a batch takes half a measurement; return the number of passes for a whole one."""
    passes = 1
    while True:
        elapsed = contender.seconds(passes)
        if elapsed >= seconds / 2:
            return max(1, round(passes * seconds / elapsed))
        passes *= 2


def middle(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the distribution-free 95 % confidence interval of the median.

    Each value is as likely above the median as below; too few of them are certain of nothing.

    >>> middle(range(1, 21))
    (6, 15)
    """
    ordered, count = sorted(values), len(values)
    outside, chance = 0, 0.0
    while (chance := chance + 2 * math.comb(count, outside) / 2**count) <= 0.05:
        outside += 1
    return (ordered[outside - 1], ordered[-outside]) if outside else None
