"""The schedule of a run: when it ends, and what is due at which iteration counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.training.counters import Counters
    from hotloop.training.runs import Ending

# Longest native call in seconds, so that Python can handle Ctrl-C and update displays.
PACE: Final = 0.1


class Repetition(NamedTuple):
    """The recorded schedule of a run that is repeated."""

    last_iteration: int
    """Last iteration; nothing else ends the repetition."""
    records: frozenset[int] = frozenset()
    """Iterations after which there was a record, including ends of the run before it was resumed with new limits."""
    evaluations: frozenset[int] = frozenset()
    """Iterations after which there was an evaluation."""
    checkpoints: frozenset[int] = frozenset()
    """Iterations at which there was a checkpoint."""


class Plan:
    """The schedule of a run.

    Args:
        config: The run's config.
        steps: Upper bound of the steps of one iteration.
        repeated: Recorded schedule to repeat.
    """

    def __init__(self, config: Config, steps: int, repeated: Repetition | None) -> None:
        self.pace = PACE
        self._train = config.train
        self._most_steps = steps
        self._last_iteration = None if repeated is None else repeated.last_iteration
        self._records = frozenset() if repeated is None else repeated.records
        self._evaluations = frozenset() if repeated is None else repeated.evaluations
        self._checkpoints = frozenset() if repeated is None else repeated.checkpoints
        self._record = config.track.interval
        self._checkpoint = config.train.checkpoint_every
        self._evaluate = config.train.evaluate_every if config.train.evaluate_episodes else 0

    def ending(self, counters: Counters, *, interrupted: bool, by_callback: bool) -> Ending | None:
        """Return the limit that ends the run now, if any."""
        train = self._train
        if interrupted:
            return "interrupted"
        if self._last_iteration is not None:
            return "iterations" if counters.iterations >= self._last_iteration else None
        if by_callback:
            return "callback"
        if counters.control.conditions.stop is not None:
            return "controller"
        if counters.solved:
            return "solved"
        if train.steps is not None and counters.steps >= train.steps:
            return "steps"
        if train.episodes is not None and counters.episodes >= train.episodes:
            return "episodes"
        if train.minutes is not None and counters.seconds >= 60.0 * train.minutes:
            return "minutes"
        return None

    def is_record_due(self, iterations: int) -> bool:
        """Return whether a record is due after this many iterations."""
        return iterations % self._record == 0 or iterations in self._records

    def is_evaluation_due(self, iterations: int) -> bool:
        """Return whether an evaluation is due after this many iterations."""
        return (self._evaluate > 0 and iterations % self._evaluate == 0) or iterations in self._evaluations

    def is_checkpoint_due(self, iterations: int) -> bool:
        """Return whether a checkpoint is due after this many iterations."""
        return (self._checkpoint > 0 and iterations % self._checkpoint == 0) or iterations in self._checkpoints

    def closes(self, ending: Ending) -> bool:
        """Whether a last record and evaluation follow; an interrupted run is resumed, a repeated one has its own."""
        return ending != "interrupted" and self._last_iteration is None

    def iterations_to_go(self, counters: Counters, *changes: int | None) -> int:
        """Return how many iterations can be made before anything is due, or settings change."""
        done = counters.iterations
        ends = [(done // every + 1) * every for every in (self._record, self._checkpoint, self._evaluate) if every]
        ends += [change for change in changes if change is not None]
        if self._last_iteration is not None:
            ends.append(self._last_iteration)
            ends += [at for at in self._records | self._evaluations | self._checkpoints if at > done]
        elif self._train.steps is not None:
            # An upper bound of the steps per iteration: the limit is reached in the last of these at the earliest.
            ends.append(done + math.ceil((self._train.steps - counters.steps) / self._most_steps))
        return min(ends) - done

    def seconds_to_go(self, counters: Counters) -> float:
        """Return how long the next native call may take."""
        minutes = self._train.minutes
        return self.pace if minutes is None else min(self.pace, 60.0 * minutes - counters.seconds)

    def fraction(self, counters: Counters) -> float:
        """Return the fraction of the nearest limit that is used up; 0 if there is none."""
        train = self._train
        limits = (
            (counters.steps, train.steps),
            (counters.episodes, train.episodes),
            (counters.seconds / 60.0, train.minutes),
        )
        return min(1.0, max((reached / limit for reached, limit in limits if limit is not None), default=0.0))
