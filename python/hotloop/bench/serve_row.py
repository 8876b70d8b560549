"""A figure of `hotloop bench serve`."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServeRow:
    """A figure with its goal, which it must not exceed."""

    name: str
    value: float
    unit: str
    goal: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The row for `--json`."""
        met = None if self.goal is None else self.value <= self.goal
        return {"name": self.name, "value": self.value, "unit": self.unit, "goal": self.goal, "met": met}
