"""Env specs: the spaces, seats and measurements of an env, made here from whatever describes them.

Learners, runners, manifests and snapshots all read an `EnvSpec`. Worker processes import this module, so it needs
NumPy and the core only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from hotloop import _core


class _Space:
    """Conversion of a space to and from JSON: its fields, with tuples as lists, and its kind."""

    kind: ClassVar[str]
    dtype: ClassVar[str]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the space that `to_json` was called on."""
        given = {field.name: values[field.name] for field in fields(cls)}  # type: ignore[arg-type]  # a dataclass
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})

    def to_json(self) -> dict[str, Any]:
        """Return the form that manifests keep and the core reads."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
        return {"kind": self.kind, **plain}


@dataclass(frozen=True)
class BoxObservation(_Space):
    """Real numbers within bounds."""

    kind: ClassVar[str] = "box"
    dtype: ClassVar[str] = "float32"

    shape: tuple[int, ...]
    low: tuple[float, ...]
    """Lower bound of each element, in C order."""
    high: tuple[float, ...]

    states: ClassVar[int] = 0


@dataclass(frozen=True)
class BytesObservation(_Space):
    """Bytes, such as the pixels of an image."""

    kind: ClassVar[str] = "bytes"
    dtype: ClassVar[str] = "uint8"

    shape: tuple[int, ...]
    high: int
    """Largest value of an element; observations are scaled by it."""

    states: ClassVar[int] = 0


@dataclass(frozen=True)
class DiscreteObservation(_Space):
    """The index of one of `n` states."""

    kind: ClassVar[str] = "discrete"
    dtype: ClassVar[str] = "int64"
    shape: ClassVar[tuple[int, ...]] = ()

    n: int

    @property
    def states(self) -> int:
        """Number of different observations; 0 for observations that are not discrete."""
        return self.n


@dataclass(frozen=True)
class DiscreteAction(_Space):
    """One choice out of `n`."""

    kind: ClassVar[str] = "discrete"
    dtype: ClassVar[str] = "int64"
    shape: ClassVar[tuple[int, ...]] = ()

    n: int

    low: ClassVar[tuple[float, ...]] = ()
    high: ClassVar[tuple[float, ...]] = ()

    @property
    def choices(self) -> tuple[int, ...]:
        """Number of choices of each sub-action; empty for continuous actions."""
        return (self.n,)

    @property
    def outputs(self) -> int:
        """Number of network outputs that parameterise the action: a logit per choice, or a mean per dimension."""
        return self.n


@dataclass(frozen=True)
class MultiDiscreteAction(_Space):
    """One choice for each of several sub-actions."""

    kind: ClassVar[str] = "multi-discrete"
    dtype: ClassVar[str] = "int64"

    n: tuple[int, ...]

    low: ClassVar[tuple[float, ...]] = ()
    high: ClassVar[tuple[float, ...]] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return (len(self.n),)

    @property
    def choices(self) -> tuple[int, ...]:
        """Number of choices of each sub-action; empty for continuous actions."""
        return self.n

    @property
    def outputs(self) -> int:
        """Number of network outputs that parameterise the action: a logit per choice, or a mean per dimension."""
        return sum(self.n)


@dataclass(frozen=True)
class ContinuousAction(_Space):
    """A vector of real numbers within bounds."""

    kind: ClassVar[str] = "continuous"
    dtype: ClassVar[str] = "float32"

    low: tuple[float, ...]
    high: tuple[float, ...]

    choices: ClassVar[tuple[int, ...]] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return (len(self.low),)

    @property
    def outputs(self) -> int:
        """Number of network outputs that parameterise the action: a logit per choice, or a mean per dimension."""
        return len(self.low)


@dataclass(frozen=True)
class HybridAction(_Space):
    """One choice for each of several sub-actions, and a vector of real numbers within bounds.

    A row of a batch has the choices first, as whole numbers, then the real numbers.
    """

    kind: ClassVar[str] = "hybrid"
    dtype: ClassVar[str] = "float32"

    n: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return (len(self.n) + len(self.low),)

    @property
    def choices(self) -> tuple[int, ...]:
        """Number of choices of each discrete sub-action."""
        return self.n

    @property
    def outputs(self) -> int:
        """Number of network outputs that parameterise the action: a logit per choice, then a mean per dimension."""
        return sum(self.n) + len(self.low)


Observation = BoxObservation | BytesObservation | DiscreteObservation
Action = DiscreteAction | MultiDiscreteAction | ContinuousAction | HybridAction

_OBSERVATIONS: dict[str, type[Observation]] = {
    "box": BoxObservation,
    "bytes": BytesObservation,
    "discrete": DiscreteObservation,
}
_ACTIONS: dict[str, type[Action]] = {
    "discrete": DiscreteAction,
    "multi-discrete": MultiDiscreteAction,
    "continuous": ContinuousAction,
    "hybrid": HybridAction,
}


@dataclass(frozen=True)
class EnvSpec:
    """An env as its users see it: what an agent observes and does, and what is measured."""

    seats: int
    """Number of agents of one env; each has a row of a batch."""
    observation: Observation
    action: Action
    masked: bool
    """Whether the env provides action masks."""
    terms: tuple[str, ...] = ("reward",)
    """Terms whose weighted sum is the reward."""
    metrics: tuple[str, ...] = ()
    """Quantities that are measured once per episode."""
    infos: tuple[tuple[str, int], ...] = ()
    """Names and lengths of the info arrays that can be requested."""
    state_version: int = 0
    """Version of the env's rules and state; 0 for Python envs, which have none."""
    state: tuple[str, ...] = ()
    """Fields of `get_state` and `set_state`."""
    independent_rows: bool = False
    """Whether every row ends and restarts its episodes independently of the env's other rows."""
    padded: bool = False
    """Whether agents have different spaces of their own, which were padded to common ones."""
    own_observation: str | None = None
    """The env's own observation space as JSON text (`space_json`), if policies see it in another form."""
    own_action: str | None = None
    """The env's own action space as JSON text, if policies decide in another form."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EnvSpec:
        """Return the spec of a description by the core, of a manifest, or of a snapshot's header."""
        given: dict[str, Any] = {name: tuple(values[name]) for name in ("terms", "metrics") if name in values}
        given |= {f"own_{name}": json.dumps(space) for name, space in values.get("own_spaces", {}).items()}
        return cls(
            seats=values["seats"],
            observation=_OBSERVATIONS[values["observation"]["kind"]].from_json(values["observation"]),
            action=_ACTIONS[values["action"]["kind"]].from_json(values["action"]),
            masked=values["masked"],
            infos=tuple((name, length) for name, length in values.get("infos", ())),
            state_version=values.get("state_version", 0),
            state=tuple(name for name, _, _ in values.get("state", ())),
            independent_rows=values.get("apart", False),
            **given,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the part that a policy depends on, as manifests keep it and the core reads it."""
        own = {"observation": self.own_observation, "action": self.own_action}
        spaces = {name: json.loads(text) for name, text in own.items() if text is not None}
        return {
            "seats": self.seats,
            "observation": self.observation.to_json(),
            "action": self.action.to_json(),
            "masked": self.masked,
            **({"own_spaces": spaces} if spaces else {}),
        }

    def fits(self, other: EnvSpec) -> bool:
        """Whether a policy for this env can act in the other."""
        return (self.observation, self.action, self.masked) == (other.observation, other.action, other.masked)


def native_spec(name: str, options: Mapping[str, Any] | None = None) -> EnvSpec:
    """Return the spec of a native env with these options.

    >>> native_spec("cartpole").action
    DiscreteAction(n=2)
    """
    return EnvSpec.from_json(_core.describe(name, None if options is None else dict(options)))
