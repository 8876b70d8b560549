"""Control between iterations: controllers decide what the next iterations run with.

A controller is asked at iteration counts that it declares, so that native calls stay long. Its state, and everything
that was decided so far, is part of the checkpoint, and it sees only what the run itself produced: resuming and
repeating a run leads to the same decisions.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hotloop.errors import TrainingError

if TYPE_CHECKING:
    from hotloop.policies.evaluation import Evaluation
    from hotloop.training.callbacks import IterationReport
    from hotloop.training.counters import Counters


@dataclass(frozen=True)
class Situation:
    """The state of a run at an iteration boundary, without anything that depends on the clock."""

    iterations: int
    steps: int
    episodes: int
    return_recent: float
    """Mean return of the last `train.until_episodes` episodes; NaN if none has finished."""
    evaluation: Evaluation | None
    """The last evaluation."""
    evaluated_at: int
    """Iteration of the last evaluation; -1 if there was none."""
    record: Mapping[str, Any]
    """The last record, without times; empty before the first. Losses are means whose last digits may differ."""


@dataclass(frozen=True)
class Decision:
    """Changes from this iteration on; what is left out stays as it is."""

    env: Mapping[str, Any] = field(default_factory=dict)
    """Options of the env, from each env's next reset on."""
    reward: Mapping[str, float] = field(default_factory=dict)
    """Weights of reward terms."""
    policies: Sequence[Sequence[int]] | None = None
    """Index of the policy that plays each seat, by env and seat: 0 learns, k is the k-th opponent."""
    learning_rate: float | None = None
    entropy: float | None = None
    """Weight of the entropy bonus."""
    stop: str | None = None
    """Reason to end the run."""
    what: str = ""
    """One line for people."""

    def changes(self) -> dict[str, Any]:
        """Return what is set, by name."""
        found = {
            name: getattr(self, name) for name in ("env", "reward", "policies", "learning_rate", "entropy", "stop")
        }
        return {name: value for name, value in found.items() if value is not None and value != {}}


class Controller(Protocol):
    """Decides at iteration boundaries. Everything it remembers is in `state`."""

    name: str
    """Identifies its state in checkpoints; unique within a run."""

    def next_decision(self, iteration: int) -> int | None:
        """Return the first iteration count after this one at which to be asked; `None` if there is none."""

    def decide(self, situation: Situation) -> Decision | None:
        """Return what changes now, if anything does. First called before the first iteration."""

    @property
    def finished(self) -> bool:
        """Whether the conditions are final: `train.until` is looked at only then."""

    def state(self) -> dict[str, Any]:
        """Return everything remembered, as JSON."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""


@dataclass
class Conditions:
    """Everything that controllers have set so far."""

    env: dict[str, Any] = field(default_factory=dict)
    reward: dict[str, float] = field(default_factory=dict)
    policies: list[list[int]] | None = None
    learning_rate: float | None = None
    entropy: float | None = None
    stop: str | None = None

    def apply(self, decision: Decision) -> None:
        """Take over a decision."""
        self.env |= decision.env
        self.reward |= decision.reward
        for name in ("policies", "learning_rate", "entropy", "stop"):
            if (value := getattr(decision, name)) is not None:
                setattr(self, name, value)


@dataclass
class ControlState:
    """The part of a checkpoint that controllers need."""

    decided_at: int = -1
    """Iteration of the last boundary at which controllers were asked."""
    conditions: Conditions = field(default_factory=Conditions)
    controllers: dict[str, dict[str, Any]] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> ControlState:
        """Return the state that a checkpoint kept."""
        return cls(**{**kept, "conditions": Conditions(**kept["conditions"])})


class ControlPlane:
    """All controllers of a run, asked in order; later ones override earlier ones."""

    def __init__(self, controllers: Sequence[Controller]) -> None:
        self._controllers = tuple(controllers)
        names = [controller.name for controller in controllers]
        if len(set(names)) < len(names):
            raise TrainingError(f"two controllers have the same name: {', '.join(sorted(names))}")
        self._initial = {each.name: copy.deepcopy(each.state()) for each in self._controllers}

    @property
    def finished(self) -> bool:
        """Whether the conditions are final."""
        return all(controller.finished for controller in self._controllers)

    def restore(self, state: ControlState) -> None:
        """Go to a checkpoint's state, or to the start if it has none."""
        if state.controllers and (other := state.controllers.keys() ^ self._initial.keys()):
            raise TrainingError(
                f"the run has the controllers {', '.join(state.controllers)}; "
                f"missing or unknown here: {', '.join(sorted(other))}. Pass the same controllers to resume it"
            )
        for controller in self._controllers:
            controller.restore(copy.deepcopy(state.controllers.get(controller.name, self._initial[controller.name])))

    def next_decision(self, iteration: int) -> int | None:
        """Return the next iteration count at which a controller wants to be asked."""
        found = [controller.next_decision(iteration) for controller in self._controllers]
        return min((at for at in found if at is not None), default=None)

    def is_due(self, counters: Counters) -> bool:
        """Return whether a controller is to be asked at this boundary and was not yet."""
        done = counters.iterations
        if not self._controllers or counters.control.decided_at == done:
            return False
        return done == 0 or self.next_decision(done - 1) == done

    def decide(self, counters: Counters) -> list[tuple[str, Decision]]:
        """Ask the controllers that are due; return the decisions with the names of who made them."""
        done = counters.iterations
        situation = Situation(
            iterations=done,
            steps=counters.steps,
            episodes=counters.episodes,
            return_recent=counters.return_recent,
            evaluation=counters.evaluation,
            evaluated_at=counters.evaluated_at,
            record=counters.control.record,
        )
        decisions = []
        for controller in self._controllers:
            if done == 0 or controller.next_decision(done - 1) == done:
                decision = controller.decide(situation)
                if decision is not None:
                    decisions.append((controller.name, decision))
        control = counters.control
        for _, decision in decisions:
            control.conditions.apply(decision)
        control.decided_at = done
        control.controllers = {each.name: copy.deepcopy(each.state()) for each in self._controllers}
        return decisions


_CLOCK = ("seconds", "seconds_in", "steps_per_second", "time", "sample", "statistics")


def timeless(report: IterationReport) -> dict[str, Any]:
    """Return a record as controllers see it: without times, and without what depends on them."""
    return {key: value for key, value in dataclasses.asdict(report).items() if key not in _CLOCK}
