"""Keys and filters over runs: one grammar for the command line and for everything else that queries a store.

A key is a column of a run, a dotted setting of its config, or a metric, of which the last value counts.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import QueryError

if TYPE_CHECKING:
    from hotloop.tracking.store import Store, StoredRun

COLUMNS: Final = (
    "id", "name", "env", "seed", "status", "ended", "created", "seen", "steps", "iterations", "episodes", "seconds",
    "return_recent", "best", "host", "process", "path",
)  # fmt: skip
_ALIASES: Final = {"return": "return_recent"}
_OPERATORS: Final = {
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class Condition:
    """A filter such as `best>=400` or `name=mine-*`."""

    key: str
    sign: str
    wanted: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """The condition that a text writes."""
        found = re.fullmatch(r"([\w.]+)\s*(!=|>=|<=|=|>|<)\s*(.*)", text, re.DOTALL)
        if found is None:
            raise QueryError(f"{text!r} is no filter: expected KEY=VALUE, KEY>VALUE or the like")
        return cls(found[1], found[2], found[3])

    def matches(self, value: Any) -> bool:
        """Whether a run with this value of the key passes."""
        if value is None:
            return self.sign == "!=" or (self.sign == "=" and self.wanted in ("", "null"))
        if isinstance(value, bool) or not isinstance(value, int | float):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if self.sign in ("=", "!="):
                return fnmatchcase(text, self.wanted) == (self.sign == "=")
            return bool(_OPERATORS[self.sign](text, self.wanted))
        try:
            wanted = float(self.wanted)
        except ValueError:
            raise QueryError(f"{self.wanted!r} is no number, but {self.key!r} is one") from None
        return bool(_OPERATORS[self.sign](value, wanted))


class RunValues:
    """The values of keys, for every run of a store. Configs are only read if a key needs them."""

    def __init__(self, store: Store, keys: Sequence[str]) -> None:
        self._store = store
        self.runs = store.runs(with_config=any("." in key for key in keys))
        self._latest: dict[str, dict[int, float]] = {}
        for key in keys:
            self._prepare(key)

    def _prepare(self, key: str) -> None:
        if _ALIASES.get(key, key) in COLUMNS or not self.runs:
            return
        if "." in key and any(key in run.settings for run in self.runs):
            return
        metrics = self._store.metric_names()
        if key not in metrics:
            settings = {name for run in self._store.runs() for name in run.settings}
            near = get_close_matches(key, [*COLUMNS, *_ALIASES, *settings, *metrics], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise QueryError(f"no run has {key!r}: it is no column, no setting and no metric{hint}")
        self._latest[key] = self._store.latest(key)

    def of(self, run: StoredRun, key: str) -> Any:
        """The value of one of the keys; `None` if the run has none."""
        column = _ALIASES.get(key, key)
        if column in COLUMNS:
            return str(run.path) if column == "path" else getattr(run, column)
        if key in self._latest:
            return self._latest[key].get(run.number)
        return run.settings.get(key)


def sort_key(value: Any, *, descending: bool) -> tuple[bool, bool, Any]:
    """The order of values of any type. Missing ones come last in either direction."""
    is_missing = value is None or (isinstance(value, float) and math.isnan(value))
    is_text = not is_missing and not isinstance(value, int | float)
    return is_missing != descending, is_text, "" if is_missing else str(value) if is_text else value
