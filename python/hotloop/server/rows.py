"""Runs as the API shows them: in lists and in full."""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import StoreAwayError
from hotloop.tracking.marks import DEFAULTS, read_marks
from hotloop.tracking.row_pages import row_page, sparkline
from hotloop.tracking.store import is_here, is_in_use
from hotloop.training.exactness import inexact_reason

if TYPE_CHECKING:
    from hotloop.tracking.run_cache import CachedStore
    from hotloop.tracking.store import StoredRun

SPARKLINE_METRIC: Final = "return_recent"
SPARKLINE_POINTS: Final = 60
_COLUMNS: Final = (
    "id", "number", "name", "env", "status", "ended", "created", "seen", "seconds", "steps", "iterations", "episodes",
    "return_recent", "best", "host",
)  # fmt: skip
_SPARKLINE_SECONDS: Final = 10.0
_MOST_CACHED: Final = 20_000


class RowMaker:
    """A factory of rows; parts that a run's journal does not change are computed once."""

    def __init__(self, store: CachedStore) -> None:
        self._store = store
        self._marks: dict[int, dict[str, Any]] = {}
        """Those that were known last: while the store is away they are shown on."""
        self._limits: dict[str, tuple[str, int | None]] = {}
        self._lines: dict[str, tuple[int, float, list[float]]] = {}

    def rows(
        self,
        runs: Sequence[StoredRun],
        values: Sequence[Sequence[Any]] | None = None,
        *,
        with_sparklines: bool = True,
    ) -> list[dict[str, Any]]:
        """Rows for a list; `values` are those of further columns."""
        with suppress(StoreAwayError):
            self._marks = read_marks(self._store)
        marks = self._marks
        extra = [[] for _ in runs] if values is None else values
        self._read_limits(runs)
        rows = []
        for run, more in zip(runs, extra, strict=True):
            line = self._sparkline(run) if with_sparklines else []
            rows.append(self._row(run, marks.get(run.number, DEFAULTS), line, list(more)))
        return rows

    def _row(self, run: StoredRun, marks: Mapping[str, Any], line: list[float], values: list[Any]) -> dict[str, Any]:
        return {
            **{name: getattr(run, name) for name in _COLUMNS},
            "seed": str(run.seed),
            "limit": self._limits.get(run.id, ("", None))[1],
            "steps_per_second": run.steps / run.seconds if run.seconds > 0 else None,
            "sparkline": line,
            **marks,
            "values": values,
        }

    def _read_limits(self, runs: Sequence[StoredRun]) -> None:
        """Read train.steps, which resuming may change, of runs for which it is not known."""
        missing = {run.number: run for run in runs if self._limits.get(run.id, ("",))[0] != _limit_key(run)}
        if not missing:
            return
        self._limits = {} if len(self._limits) >= _MOST_CACHED else self._limits
        for full in self._store.runs(numbers=list(missing)):
            steps = full.config.get("train", {}).get("steps") if full.config_text else None
            self._limits[full.id] = _limit_key(missing[full.number]), steps if isinstance(steps, int) else None

    def _sparkline(self, run: StoredRun) -> list[float]:
        """The course of the return; that of a running run is some seconds old at most."""
        position, now = self._store.position(run), time.monotonic()
        known = self._lines.get(run.id)
        if known is not None and (known[0] == position or now - known[1] < _SPARKLINE_SECONDS):
            return known[2]
        line = sparkline(self._store, run, SPARKLINE_METRIC, SPARKLINE_POINTS)
        self._lines = {} if len(self._lines) >= _MOST_CACHED else self._lines
        self._lines[run.id] = position, now, line
        return line

    def detail(self, run: StoredRun) -> dict[str, Any]:
        """A run in full."""
        (full,) = self._store.runs(numbers=[run.number]) or [run]
        row = self.rows([full])[0]
        here = is_here(full)
        learner, _, reason = str(full.facts.get("learner") or "").partition(" ")
        why_not = _inexact_reason(full) if here else f"its folder is on {full.host}"
        return {
            **row,
            "path": str(full.path) if here else None,
            "folder_here": here,
            "process": full.process,
            "config": full.whole_config,
            "changed": changed_settings(full),
            "facts": full.facts,
            "best_evaluation": self._best_evaluation(full),
            "learner": learner.rstrip(":"),
            "learner_reason": reason.strip("()") or None,
            "commands": commands(full),
            "seconds_left": _seconds_left(row),
            "exact": why_not is None,
            "inexact_reason": why_not,
            "can_stop": full.status == "running" and here and full.host == platform.node(),
            "verifications": self._verifications(full),
        }

    def _best_evaluation(self, run: StoredRun) -> dict[str, Any] | None:
        rows = row_page(self._store, "evaluations", run, limit=100_000).rows
        best = [evaluation(row) for row in rows if row["facts"].get("is_best")]
        return best[-1] if best else None

    def _verifications(self, run: StoredRun) -> list[dict[str, Any]]:
        rows = row_page(self._store, "events", run, limit=100_000).rows
        return [
            {
                "time": row["time"],
                "host": str(row["facts"].get("host", "")),
                "version": str(row["facts"].get("version", "")),
                "identical": bool(row["facts"].get("identical")),
                "records": int(row["facts"].get("records", 0)),
                "what": row["what"],
            }
            for row in rows
            if row["kind"] == "verified"
        ]


def _limit_key(run: StoredRun) -> str:
    return f"{run.process} {run.status}"


def is_live(run: StoredRun) -> bool:
    """Whether a process of this machine trains the run."""
    return run.host == platform.node() and is_here(run) and is_in_use(run.path)


def evaluation(row: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluation's row of the store as the API shows it."""
    facts = row["facts"]
    metrics = {name: value for name, value in facts.get("metrics", {}).items() if isinstance(value, int | float)}
    names = ("number", "step", "time", "source", "mean", "low", "high", "episodes")
    return {**{name: row[name] for name in names}, "is_best": bool(facts.get("is_best")), "metrics": metrics}


def changed_settings(run: StoredRun) -> list[dict[str, Any]]:
    """Settings that differ from the packaged ones of the run's env."""
    from hotloop.config import load_config
    from hotloop.errors import ConfigError

    try:
        config = load_config(run.env).model_dump(mode="json")
    except (ConfigError, ValueError, OSError, ImportError):
        return []  # an env whose code is not here has no packaged settings
    defaults = {f"{part}.{key}": value for part, values in config.items() for key, value in values.items()}
    options = {option["name"]: option["default"] for option in _options(run.env)}
    defaults |= {f"env.{name}": value for name, value in options.items()}
    return [
        {"key": key, "value": value, "default": defaults.get(key)}
        for key, value in run.settings.items()
        if key in defaults and value != defaults[key]
    ]


def _options(env: str) -> Sequence[Mapping[str, Any]]:
    from hotloop import _core

    return _core.env_entry(env)["options"] if _core.has_env(env) else ()


def commands(run: StoredRun) -> dict[str, str]:
    """Commands for a run, to be copied."""
    name = shlex.quote(run.name)
    return {
        "resume": f"hotloop train --resume {name}",
        "eval": f"hotloop eval {name}",
        "play": f"hotloop play {name}",
        "verify": f"hotloop verify {name}",
        "plot": f"hotloop runs plot {name}",
        "show": f"hotloop runs show {name}",
    }


def _inexact_reason(run: StoredRun) -> str | None:
    """Why the policy of an arbitrary step cannot be rebuilt; `None` if it can."""
    reason = inexact_reason(run.whole_config, [str(run.facts.get("learner") or "")])
    return None if reason is None else f"{reason}: the nearest kept checkpoint plays"


def _seconds_left(row: Mapping[str, Any]) -> float | None:
    """Time to the limit of steps at the mean speed so far."""
    if row["status"] != "running" or not row["limit"] or not row["steps_per_second"]:
        return None
    return float(max(0.0, (row["limit"] - row["steps"]) / row["steps_per_second"]))
