"""Search spaces: distributions of settings, conditions between them, and settings that are chosen together.

A distribution is written as `log(1e-4, 1e-2)`. Each maps a number in [0, 1) to a value, so that samplers need not know
what is searched, and the bits of a value depend on arithmetic that is the same everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hotloop.config.errors import unknown_key
from hotloop.config.loader import parse_yaml
from hotloop.errors import ConfigError
from hotloop.text import parse_number

Settings = dict[str, Any]

_CALL: Final = re.compile(r"\s*([a-z][a-z0-9]*)\s*\((.*)\)\s*", re.DOTALL)
# Digits of a drawn number. Logarithms differ in their last bits between math libraries: none of those is kept.
_DIGITS: Final = 6
# Sections and keys that belong to the sweep or the machine, with the reason.
_RESERVED: Final = {
    "env.name": "a sweep is for one env",
    "train.seed": "seeds come from sweep.seed, so that no setting wins by luck",
    "train.minutes": "trials must not depend on the machine's speed: search train.steps instead",
    "runner.num_threads": "trials run on one thread each, with the same bits as on many",
}
_RESERVED_SECTIONS: Final = {
    "track": "tracking does not change results",
    "control": "trials train without controllers",
    "opponents": "trials train without frozen opponents",
}


@dataclass(frozen=True)
class Distribution:
    """Values of one entry of a space.

    `kind` is `real`, `log`, `log1m`, `int`, `logint`, `pow2` or `choice`; `low` and `high` are the bounds of numbers,
    `options` the values of a choice.
    """

    kind: str
    low: float = 0.0
    high: float = 0.0
    options: tuple[Any, ...] = ()

    @property
    def is_discrete(self) -> bool:
        """Whether it has finitely many values."""
        return self.kind in ("int", "logint", "pow2", "choice")

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the coordinate in which values are drawn evenly: a logarithm, an exponent, or the value itself."""
        if self.kind == "pow2":
            return math.log2(self.low), math.log2(self.high)
        if self.kind == "log1m":
            return 1.0 - self.high, 1.0 - self.low
        return self.low, self.high

    def value(self, unit: float) -> Any:
        """Return the value at a position in [0, 1)."""
        low, high = self.bounds
        match self.kind:
            case "choice":
                return self.options[min(int(unit * len(self.options)), len(self.options) - 1)]
            case "int":
                return self.at(math.floor(low + unit * (high - low + 1)))
            case "logint":
                drawn = math.exp(_between(math.log(low), math.log(high + 1), unit))
                return self.at(math.floor(float(f"{drawn:.12g}")))
            case "pow2":
                return self.at(math.floor(low + unit * (high - low + 1)))
            case "log":
                return self.at(math.exp(_between(math.log(low), math.log(high), unit)))
            case "log1m":
                return self.at(math.exp(_between(math.log(high), math.log(low), unit)))
            case _:
                return self.at(_between(low, high, unit))

    def at(self, coordinate: float) -> Any:
        """Return the value at a coordinate within `bounds`; of a choice, at an index."""
        low, high = self.bounds
        match self.kind:
            case "choice":
                return self.options[int(coordinate)]
            case "int" | "logint":
                return int(min(max(round(coordinate), low), high))
            case "pow2":
                return 2 ** int(min(max(round(coordinate), low), high))
        rounded = float(f"{coordinate:.{_DIGITS}g}")
        if self.kind == "log1m":
            # Digits of the distance from 1: 0.999123 and 0.9 are equally precise.
            rounded = float(f"{1.0 - rounded:.12g}")
        return min(max(rounded, self.low), self.high)

    def coordinate(self, value: Any) -> float | None:
        """Return the coordinate of a value; None if the distribution cannot have produced it."""
        if self.kind == "choice":
            return float(self.options.index(value)) if value in self.options else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return None
        if self.kind == "pow2":
            return math.log2(value) if value > 0 and math.log2(value).is_integer() else None
        if self.is_discrete and value != int(value):
            return None
        return 1.0 - value if self.kind == "log1m" else float(value)

    def unit(self, value: Any) -> float:
        """Return the position of a value in [0, 1], for plots and distances."""
        coordinate = self.coordinate(value)
        if coordinate is None:
            return math.nan
        if self.kind == "choice":
            return coordinate / max(1, len(self.options) - 1)
        low, high = self.bounds
        if self.kind in ("log", "log1m", "logint"):
            low, high, coordinate = math.log(low), math.log(high), math.log(coordinate)
        position = (coordinate - low) / (high - low) if high > low else 0.5
        return 1.0 - position if self.kind == "log1m" else position

    def points(self, most: int) -> list[Any]:
        """Return its values for a grid: all of a choice, else up to `most` that are evenly spaced."""
        if self.kind == "choice":
            return list(self.options)
        low, high = self.bounds
        count = min(most, int(high - low) + 1) if self.is_discrete else most
        if count == 1:
            return [self.value(0.5)]
        if self.kind in ("log", "log1m", "logint"):
            ends = math.log(low), math.log(high)
            found = [self.at(math.exp(_between(*ends, i / (count - 1)))) for i in range(count)]
        else:
            found = [self.at(_between(low, high, i / (count - 1))) for i in range(count)]
        return list(dict.fromkeys(found))

    def __str__(self) -> str:
        inner = self.options if self.kind == "choice" else (self.low, self.high)
        return f"{self.kind}({', '.join(map(_written, inner))})"


@dataclass(frozen=True)
class Dimension:
    """An entry of a space: the keys that it sets, its values, and when it applies."""

    keys: tuple[str, ...]
    distribution: Distribution
    conditions: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """Keys with the values that they need to have."""

    @property
    def name(self) -> str:
        """The keys as written in the file."""
        return ", ".join(self.keys)

    def settings(self, value: Any) -> Settings:
        """Return what a value sets."""
        return {self.keys[0]: value} if len(self.keys) == 1 else dict(zip(self.keys, value, strict=True))

    def is_in(self, settings: Settings) -> bool:
        """Return whether it applied when these settings were drawn."""
        return self.keys[0] in settings

    def value_in(self, settings: Settings) -> Any:
        """Return the value that the settings have here; the options of a tied choice are lists."""
        values = [settings.get(key) for key in self.keys]
        return values[0] if len(values) == 1 else values

    def applies(self, settings: Settings, fixed: Callable[[str], Any]) -> bool:
        """Return whether its conditions hold, given the settings so far and the fixed ones."""
        return all((settings[key] if key in settings else fixed(key)) in values for key, values in self.conditions)


@dataclass(frozen=True)
class Space:
    """A search space; a dimension comes after those that its conditions name."""

    dimensions: tuple[Dimension, ...]
    fixed: Mapping[str, Any]
    """Values of keys that conditions name and the space does not search."""

    def settings(self, choose: Callable[[Dimension], Any]) -> Settings:
        """Return the settings of a point; `choose` returns the value of a dimension that applies."""
        settings: Settings = {}
        for dimension in self.dimensions:
            if dimension.applies(settings, self.fixed.get):
                settings |= dimension.settings(choose(dimension))
        return settings

    def grid(self, most: int) -> list[Settings]:
        """Return all points of the grid with up to `most` values of each number."""
        found: list[Settings] = [{}]
        for dimension in self.dimensions:
            grown = []
            for settings in found:
                if dimension.applies(settings, self.fixed.get):
                    values = dimension.distribution.points(most)
                    grown += [{**settings, **dimension.settings(value)} for value in values]
                else:
                    grown.append(settings)
            found = grown
        return found

    def has(self, settings: Settings) -> bool:
        """Return whether settings are a point of this space."""
        known = {key for dimension in self.dimensions for key in dimension.keys}
        if set(settings) - known:
            return False
        for dimension in self.dimensions:
            is_in = dimension.is_in(settings)
            if dimension.applies(settings, self.fixed.get) != is_in:
                return False
            if is_in and dimension.distribution.coordinate(dimension.value_in(settings)) is None:
                return False
        return True


def parse_space(entries: Mapping[str, Any], known: Sequence[str], fixed: Callable[[str], Any]) -> Space:
    """Return the space of a file or command line.

    Args:
        entries: Keys (several, separated by commas, for a tied choice) with distributions, or with
            `{if: {KEY: VALUES}, is: DISTRIBUTION}`.
        known: All config keys, for suggestions.
        fixed: Returns the value of a key that is not searched.
    """
    if not entries:
        raise ConfigError("the space is empty: give at least one key with a distribution, such as log(1e-4, 1e-2)")
    dimensions = [_dimension(name, entry, known) for name, entry in entries.items()]
    owners: dict[str, Dimension] = {}
    for dimension in dimensions:
        for key in dimension.keys:
            if key in owners:
                raise ConfigError(f"space: {key} is searched twice, in {owners[key].name!r} and {dimension.name!r}")
            owners[key] = dimension
    named = {key for dimension in dimensions for key, _ in dimension.conditions}
    for dimension in dimensions:
        for key, values in dimension.conditions:
            owner = owners.get(key)
            if owner is not None and not any(_may_be(owner, key, value) for value in values):
                raise ConfigError(
                    f"space.{dimension.name}: its condition never holds, {key} is searched as {owner.distribution}"
                )
    return Space(tuple(_ordered(dimensions, owners)), {key: fixed(key) for key in named if key not in owners})


def whole_entry(entry: Any) -> Any:
    """Return an entry of a space with its distribution in one piece.

    In `{if: ..., is: choice(16, 32)}` YAML takes the comma for the end of the value, and `32)` for a key.

    >>> whole_entry({"if": {"policy.memory": "lstm"}, "is": "choice(16", "32)": None})
    {'if': {'policy.memory': 'lstm'}, 'is': 'choice(16, 32)'}
    """
    if not isinstance(entry, Mapping) or not {"if", "is"} <= set(entry):
        return entry
    rest = [key for key in entry if key not in ("if", "is")]
    if any(entry[key] is not None for key in rest):
        return entry
    return {"if": entry["if"], "is": ", ".join(map(str, (entry["is"], *rest)))} if rest else dict(entry)


def parse_distribution(text: str, place: str) -> Distribution:
    """Return the distribution that a text describes; errors name the place.

    >>> str(parse_distribution("logint(50k, 1M)", "space.train.steps"))
    'logint(50000, 1000000)'
    """
    found = _CALL.fullmatch(text)
    if found is None or found[1] not in _KINDS:
        raise ConfigError(f"{place} is {text!r}: expected a distribution: {', '.join(_KINDS.values())}")
    kind = found[1]
    try:
        arguments = parse_yaml(f"[{found[2]}]")
    except ValueError:
        raise ConfigError(f"{place} is {text!r}: the arguments of {kind} are not valid") from None
    if kind == "choice":
        options = tuple(_number(each) for each in arguments)
        if not options:
            raise ConfigError(f"{place} is {text!r}: a choice needs at least one value")
        if any(options.index(each) != index for index, each in enumerate(options)):
            raise ConfigError(f"{place} is {text!r}: a value is given twice")
        return Distribution("choice", options=options)
    bounds = [_number(each) for each in arguments]
    if len(bounds) != 2 or any(isinstance(each, bool) or not isinstance(each, int | float) for each in bounds):
        raise ConfigError(f"{place} is {text!r}: expected two numbers, {_KINDS[kind]}")
    low, high = bounds
    _check_bounds(kind, low, high, f"{place} is {text!r}")
    return Distribution(kind, low, high)


def is_distribution(text: object) -> bool:
    """Return whether a text is written like a distribution, rather than like a value."""
    return isinstance(text, str) and _CALL.fullmatch(text) is not None


_KINDS: Final = {
    "real": "real(low, high)",
    "log": "log(low, high)",
    "log1m": "log1m(low, high)",
    "int": "int(low, high)",
    "logint": "logint(low, high)",
    "pow2": "pow2(low, high)",
    "choice": "choice(a, b, ...)",
}


def _check_bounds(kind: str, low: float, high: float, what: str) -> None:
    if not low < high:
        raise ConfigError(f"{what}: the range is empty, {_written(low)} is not less than {_written(high)}")
    if not math.isfinite(low) or not math.isfinite(high):
        raise ConfigError(f"{what}: bounds must be finite")
    if kind in ("log", "logint", "pow2") and low <= 0:
        raise ConfigError(f"{what}: {kind} needs a low bound above 0")
    if kind == "log1m" and high >= 1:
        raise ConfigError(f"{what}: log1m needs a high bound below 1")
    if kind in ("int", "logint", "pow2") and (low != int(low) or high != int(high)):
        raise ConfigError(f"{what}: {kind} needs whole numbers")
    if kind == "pow2" and not (math.log2(low).is_integer() and math.log2(high).is_integer()):
        raise ConfigError(f"{what}: pow2 needs powers of two as bounds")


def _dimension(name: object, entry: Any, known: Sequence[str]) -> Dimension:
    if not isinstance(name, str):
        raise ConfigError(f"space: {name!r} is not a config key")
    keys = tuple(part.strip() for part in name.split(","))
    for key in keys:
        section = key.partition(".")[0]
        if key in _RESERVED or section in _RESERVED_SECTIONS:
            why = _RESERVED.get(key) or _RESERVED_SECTIONS[section]
            raise ConfigError(f"space.{key} cannot be searched: {why}")
        if key not in known and not key.startswith(("env.", "train.evaluate_env.", "policy.module_options.")):
            raise ConfigError(f"space: {unknown_key(key, known)}")
    conditions: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    if isinstance(entry, Mapping):
        if set(entry) != {"if", "is"} or not isinstance(entry["if"], Mapping) or not entry["if"]:
            raise ConfigError(f"space.{name}: expected a distribution, or {{if: {{KEY: VALUES}}, is: DISTRIBUTION}}")
        conditions = tuple(
            (str(key), tuple(values) if isinstance(values, list) else (values,)) for key, values in entry["if"].items()
        )
        for key, _ in conditions:
            if key not in known and not key.startswith("env."):
                raise ConfigError(f"space.{name}: its condition names an unknown key: {unknown_key(key, known)}")
        entry = entry["is"]
    if not isinstance(entry, str):
        raise ConfigError(
            f"space.{name} is {entry!r}: expected a distribution, such as log(1e-4, 1e-2) or choice(1, 2); "
            "fixed values stand outside of the space"
        )
    distribution = parse_distribution(entry, f"space.{name}")
    if len(keys) > 1:
        if distribution.kind != "choice":
            raise ConfigError(f"space.{name}: settings are tied by choice([a, b], ...), not by {distribution.kind}")
        for option in distribution.options:
            if not isinstance(option, list) or len(option) != len(keys):
                raise ConfigError(f"space.{name}: {_written(option)} needs {len(keys)} values, one per key")
    return Dimension(keys, distribution, conditions)


def _may_be(owner: Dimension, key: str, value: Any) -> bool:
    distribution = owner.distribution
    if len(owner.keys) > 1:
        return any(option[owner.keys.index(key)] == value for option in distribution.options)
    return distribution.coordinate(value) is not None


def _ordered(dimensions: Sequence[Dimension], owners: Mapping[str, Dimension]) -> list[Dimension]:
    """Return the dimensions, each after those that its conditions name."""
    done: list[Dimension] = []
    waiting = list(dimensions)
    while waiting:
        free = [each for each in waiting if all(key not in owners or owners[key] in done for key, _ in each.conditions)]
        if not free:
            raise ConfigError(
                f"space: the conditions of {', '.join(each.name for each in waiting)} depend on each other"
            )
        done += free
        waiting = [each for each in waiting if each not in free]
    return done


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(each) for each in value]
    return parse_number(value) if isinstance(value, str) else value


def _between(low: float, high: float, unit: float) -> float:
    return low + unit * (high - low)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
