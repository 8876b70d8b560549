"""The runtimes behind one interface: native (one thread or several), MPI, envs of others, a table on a GPU."""

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
    "private": "native, threads with tables of their own, merged after each iteration",
}


class Engine(Protocol):
    """What makes steps and learns from them."""

    about: str
    """What it is, in a line."""
    notes: tuple[str, ...]
    """What a person should know."""
    steps_per_iteration: int
    plays: Callable[[int, int], Evaluation] | None
    """Evaluates by so many episodes from a seed, where the trainer cannot make the env itself."""

    @property
    def rows(self) -> int:
        """States that have a row."""

    @property
    def memory(self) -> int:
        """Of all tables."""

    def advance(self, iterations: int, seconds: float) -> tuple[int, int]:
        """Makes up to so many iterations, none of which begins after these seconds: iterations and steps made."""

    def tally(self) -> Any:
        """What was counted since the last call."""

    def table(self) -> _core.QTable:
        """A copy of the table."""

    def set_table(self, table: _core.QTable) -> None:
        """Goes on with another table."""

    def snapshot(self) -> bytes:
        """All but the table."""

    def restore(self, state: bytes) -> None:
        """Goes to what was saved."""

    def close(self) -> None:
        """Ends what it holds."""


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
        """States that have a row."""
        return self.learner.rows

    @property
    def memory(self) -> int:
        """Of all tables."""
        return self.learner.bytes

    def advance(self, iterations: int, seconds: float) -> tuple[int, int]:
        """Makes iterations."""
        made = self.learner.advance(iterations, seconds)
        return made, made * self.steps_per_iteration

    def tally(self) -> Any:
        """What was counted since the last call."""
        return self.learner.tally()

    def table(self) -> _core.QTable:
        """A copy of the table."""
        return self.learner.table()

    def set_table(self, table: _core.QTable) -> None:
        """Goes on with another table."""
        self.learner.set_table(table)

    def snapshot(self) -> bytes:
        """All but the table."""
        return self.learner.snapshot()

    def restore(self, state: bytes) -> None:
        """Goes to what was saved."""
        self.learner.restore(state)

    def close(self) -> None:
        """Nothing to end: threads live only while they work."""


def make_engine(config: Config, spaces: Spaces, settings: dict[str, Any]) -> Engine:
    """The engine that the config asks for."""
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
