"""The folder of a sweep: its definition, and the journal with one line per finished task.

Lines are appended as tasks end and synced in batches. A line that a kill or a full disk cut short is skipped, and its
task repeated; nothing else is needed to go on.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self

from hotloop import _core, files
from hotloop.envs.loader import short_name
from hotloop.errors import TrainingError
from hotloop.files import UnreadableFileError
from hotloop.sweeps.definition import Definition
from hotloop.sweeps.samplers import Observation
from hotloop.sweeps.tasks import Result
from hotloop.tracking.journal import open_for_append, write_all
from hotloop.training.runs import home
from hotloop.training.trust import check_trust, code_in_config, remember

NAME: Final = "journal.jsonl"
DEFINITION: Final = "sweep.json"
_SYNC_SECONDS: Final = 0.5
_LIMIT: Final = 1 << 30


class SweepFolder:
    """A sweep's folder; `open` makes it writable for one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stored = files.read_object(path / DEFINITION)
        except UnreadableFileError as error:
            raise TrainingError(f"the sweep {path.name!r} is damaged: {error}") from None
        if not files.is_sealed(self._stored):
            raise TrainingError(f"the sweep {path.name!r} is damaged: {DEFINITION} does not match its checksum")
        self._file: int | None = None
        self._synced = time.monotonic()

    @classmethod
    def create(
        cls,
        definition: Definition,
        *,
        name: str | None = None,
        given_home: str | Path | None = None,
        prior: Sequence[Observation] = (),
    ) -> Self:
        """Return a new folder under the home."""
        env = re.sub(r"[^\w.+=@-]+", "-", short_name(definition.env))
        name = name or f"{env}-sweep-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        if not re.fullmatch(r"\w[\w.+=@-]*", name) or len(name.encode()) > 150:
            raise TrainingError(f"the name {name[:150]!r} is invalid: use at most 150 letters, digits, and . _ - + = @")
        path = sweeps_folder(given_home) / name
        facts = {
            "kind": "hotloop sweep",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "hotloop": _core.__version__,
            "prior": [vars(each) for each in prior],
            **definition.to_json(),
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.place_folder(path, {DEFINITION: files.seal(facts), NAME: b""}, replace=False)
        except OSError as error:
            if path.exists():
                raise TrainingError(
                    f"there is a sweep {name!r} already: go on with --resume {name}, or take another name"
                ) from None
            raise TrainingError(f"cannot make the folder {path}: {error.strerror}") from None
        remember(path, _code(definition))
        return cls(path)

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.path.name

    @property
    def created(self) -> str:
        """When it was defined."""
        return str(self._stored.get("created"))

    @property
    def version(self) -> str:
        """The version of Hotloop that began it."""
        return str(self._stored.get("hotloop"))

    def definition(self, *, trust: bool = False) -> Definition:
        """Return the definition; one from elsewhere that names code is refused unless it is trusted."""
        definition = Definition.from_json(self._stored)
        check_trust(self.path, _code(definition), trust=trust)
        return definition

    def prior(self) -> list[Observation]:
        """Return the trials of another sweep that it began with."""
        return [
            Observation(
                each["index"],
                each["settings"],
                each["state"],
                tuple(each["values"]),
                tuple((steps, value) for steps, value in each["rungs"]),
            )
            for each in self._stored["prior"]
        ]

    def open(self) -> None:
        """Lock the folder and open the journal for appending."""
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise TrainingError(f"the sweep {self.name!r} is in use: another process works on it") from None
        self._file = open_for_append(self.path / NAME)

    def append(self, line: dict[str, Any]) -> None:
        """Append a result; it is on the disk half a second later at the latest."""
        assert self._file is not None
        try:
            write_all(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")
            if time.monotonic() - self._synced >= _SYNC_SECONDS:
                self.sync()
        except OSError as error:
            raise TrainingError(
                f"cannot write to {self.path / NAME}: {error.strerror}. Once that is settled go on with "
                f"'hotloop sweep --resume {self.name}'"
            ) from error

    def sync(self) -> None:
        """Wait until all results are on the disk."""
        assert self._file is not None
        os.fsync(self._file)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and unlock."""
        if self._file is not None:
            self.sync()
            os.close(self._file)
            os.close(self._lock)
            self._file = None

    def results(self) -> dict[str, Result]:
        """Return the results by task; of a task that has several lines the first counts."""
        found: dict[str, Result] = {}
        try:
            data = files.read_bytes(self.path / NAME, _LIMIT)
        except UnreadableFileError as error:
            raise TrainingError(f"the sweep {self.name!r} is damaged: {error}") from None
        for text in data.split(b"\n"):
            try:
                line = json.loads(text) if text.startswith(b"{") else None
            except ValueError:
                continue
            if isinstance(line, dict) and isinstance(line.get("task"), str) and line.keys() >= _FIELDS:
                found.setdefault(line["task"], line)
        return found


_FIELDS: Final = {
    "task", "state", "why", "settings", "seeds", "rungs", "evaluations", "steps", "cost", "seconds", "cpu", "memory",
    "sha256",
}  # fmt: skip


def sweeps_folder(given_home: str | Path | None = None) -> Path:
    """Return the folder that holds all sweeps of a home."""
    return home(given_home) / "sweeps"


def list_sweeps(given_home: str | Path | None = None) -> list[Path]:
    """Return the folders of all sweeps, the newest first."""
    found = [path.parent for path in sweeps_folder(given_home).glob(f"*/{DEFINITION}")]
    return sorted(found, key=lambda path: ((path / DEFINITION).stat().st_mtime, path.name), reverse=True)


def find_sweep(name: str | Path, given_home: str | Path | None = None) -> SweepFolder:
    """Return the sweep of a path, a name, the beginning of one, or `last`."""
    text = str(name)
    if text and (Path(name) / DEFINITION).exists():
        return SweepFolder(Path(name))
    known = {path.name: path for path in list_sweeps(given_home)}
    if text == "last" and known:
        return SweepFolder(next(iter(known.values())))
    fitting = [text] if text in known else [each for each in known if text and each.startswith(text)]
    if len(fitting) == 1:
        return SweepFolder(known[fitting[0]])
    if fitting:
        raise TrainingError(f"{text!r} is ambiguous: {', '.join(fitting[:3])}; type more of the name")
    near = get_close_matches(text, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f" in {sweeps_folder(given_home)}"
    raise TrainingError(f"there is no sweep {text!r}{hint}")


def _code(definition: Definition) -> list[str]:
    named = [definition.sampler] if ":" in definition.sampler else []
    return [*named, *code_in_config(definition.base)]
