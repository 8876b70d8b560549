"""Tabular runtimes behind one interface: native (one or more threads), MPI, Gymnasium envs, a table on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from hotloop import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.config import Config
    from hotloop.config.tabular.spaces import Spaces
    from hotloop.policies.evaluation import Evaluation

_ABOUT = {
    "one": "native, one thread",
    "shared": "native, threads share one table without locks",
    "private": "native, one table per thread, merged after each iteration",
}


class Engine(Protocol):
    """Steps envs and learns from the transitions."""

    about: str
    """One-line description."""
    notes: tuple[str, ...]
    """Notices shown at the start of a run."""
    steps_per_iteration: int
    plays: Callable[[int, int], Evaluation] | None
    """Evaluate on a number of episodes with a seed, for envs that the trainer cannot create."""

    @property
    def rows(self) -> int:
        """Number of states with a row."""

    @property
    def memory(self) -> int:
        """Bytes of all tables."""

    def advance(self, iterations: int, seconds: float) -> tuple[int, int]:
        """Run up to `iterations` iterations, none started after `seconds`; return the iterations and steps done."""

    def tally(self) -> Any:
        """Return the statistics since the last call."""

    def table(self) -> _core.QTable:
        """Return a copy of the table."""

    def set_table(self, table: _core.QTable) -> None:
        """Replace the table."""

    def snapshot(self) -> bytes:
        """Return the state without the table."""

    def restore(self, state: bytes) -> None:
        """Restore a snapshot."""

    def close(self) -> None:
        """Release resources."""


class NativeEngine:
    """Env and learner in one native loop."""

    def __init__(self, config: Config, spaces: Spaces, settings: dict[str, Any]) -> None:
        self.learner = _core.TabularLearner(
            config.env.name, config.env.options, settings, spaces.states, spaces.actions
        )
        self.about = _ABOUT.get(config.tabular.runtime, "native")
        self.notes: tuple[str, ...] = ()
        self.steps_per_iteration = config.tabular.iteration
        self.plays: Callable[[int, int], Evaluation] | None = None

    @property
    def rows(self) -> int:
        """Number of states with a row."""
        return self.learner.rows

    @property
    def memory(self) -> int:
        """Bytes of all tables."""
        return self.learner.bytes

    def advance(self, iterations: int, seconds: float) -> tuple[int, int]:
        """Run iterations."""
        made = self.learner.advance(iterations, seconds)
        return made, made * self.steps_per_iteration

    def tally(self) -> Any:
        """Return the statistics since the last call."""
        return self.learner.take_statistics()

    def table(self) -> _core.QTable:
        """Return a copy of the table."""
        return self.learner.table()

    def set_table(self, table: _core.QTable) -> None:
        """Replace the table."""
        self.learner.set_table(table)

    def snapshot(self) -> bytes:
        """Return the state without the table."""
        return self.learner.snapshot()

    def restore(self, state: bytes) -> None:
        """Restore a snapshot."""
        self.learner.restore(state)

    def close(self) -> None:
        """Nothing to release: threads exist only during `advance`."""


def make_engine(config: Config, spaces: Spaces, settings: dict[str, Any]) -> Engine:
    """Create the engine that the config selects."""
    from hotloop.config.tabular.spaces import GYMNASIUM

    if config.env.name.startswith(GYMNASIUM):
        from hotloop.tabular.external import ExternalEngine

        return ExternalEngine(config, spaces, settings)
    if config.tabular.table == "torch":
        from hotloop.tabular.torch_table import TorchEngine

        return TorchEngine(config, spaces)
    if config.tabular.runtime == "mpi":
        from hotloop.tabular.mpi import MpiEngine

        return MpiEngine(config, spaces, settings)
    return NativeEngine(config, spaces, settings)
