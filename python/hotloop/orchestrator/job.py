"""A job: its states, the row that the store has of it, and a request for a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

State = Literal["waiting", "queued", "running", "completed", "failed", "cancelled"]
Kind = Literal["train", "eval", "sweep", "bench", "verify"]
Condition = Literal["ok", "any"]

STATES: Final[tuple[State, ...]] = ("waiting", "queued", "running", "completed", "failed", "cancelled")
KINDS: Final[tuple[Kind, ...]] = ("train", "eval", "sweep", "bench", "verify")
OPEN: Final[tuple[State, ...]] = ("waiting", "queued", "running")
# Beginning of keys that users chose: such a key names one job, even after it completed.
CHOSEN: Final = "user:"
DEFAULT_GROUP: Final = "default"
DEFAULT_RETRIES: Final = 3


@dataclass(frozen=True)
class Request:
    """A job to submit.

    Args:
        kind: What to run.
        spec: Arguments of the child process: a resolved config, or the arguments of a command.
        key: Identity of the work; submissions with equal keys are one job.
        name: A short description for people.
        shape: Identity of the work without its seed: such jobs need as much memory and run as fast.
        exact: Whether equal keys mean equal results, so that a completed job answers further submissions.
        code: Code outside of Hotloop that the job names; it runs only where it is trusted.
        after: Jobs that must end before: numbers, or labels of requests in the same batch, and how they must end.
        label: Name of this request within its batch.
        answer: Result and run of an equal run that is completed already.
    """

    kind: Kind
    spec: Mapping[str, Any]
    key: str
    name: str
    shape: str = ""
    exact: bool = False
    code: Sequence[str] = ()
    priority: int = 0
    group: str = DEFAULT_GROUP
    cores: int = 1
    memory: int | None = None
    gpus: int = 0
    retries: int = DEFAULT_RETRIES
    after: Sequence[tuple[int | str, Condition]] = ()
    not_before: float = 0.0
    label: str | None = None
    answer: tuple[str, Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class Job:
    """A job as the store knows it."""

    number: int
    key: str
    kind: Kind
    name: str
    shape: str
    exact: bool
    state: State
    why: str
    """Why it is in this state, if there is something to say."""
    wish: str
    """Request that a running job has not followed yet: `cancel`, `pause` or `preempt`; empty if there is none."""
    paused: bool
    priority: int
    group_name: str
    cores: int
    memory: int | None
    """Declared bytes; doubled after each death for lack of memory."""
    gpus: int
    retries: int
    attempts: int
    not_before: float
    submitted: float
    queued: float
    """Since when it can start, for its age."""
    started: float | None
    ended: float | None
    folder: str | None
    run: str | None
    peak: int | None
    """Bytes that it used at most."""
    spec: dict[str, Any] = field(default_factory=dict)
    deaths: list[dict[str, Any]] = field(default_factory=list)
    needs: list[tuple[int, Condition]] = field(default_factory=list)
    result: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good."""
        return self.state not in OPEN

    @property
    def path(self) -> Path:
        """Folder of a job that was started."""
        assert self.folder is not None
        return Path(self.folder)


# Columns that hold JSON. The spec is long: lists of jobs leave it out.
_JSON: Final = ("spec", "deaths", "needs", "result")
COLUMNS: Final = tuple(column.name for column in fields(Job) if column.name != "spec")


def to_job(row: Mapping[str, Any]) -> Job:
    """Return the job of a row."""
    values = {key: value for key, value in row.items() if key not in _JSON}
    for flag in ("exact", "paused"):
        values[flag] = bool(values[flag])
    # Most jobs have neither deaths nor needs.
    parsed = {key: json.loads(row[key]) for key in _JSON if row.get(key) not in (None, "[]")}
    if "needs" in parsed:
        parsed["needs"] = [(number, condition) for number, condition in parsed["needs"]]
    return Job(**values, **parsed)
