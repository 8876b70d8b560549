"""The folder of a run: where it lies, what is in it, and who may write to it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from hotloop.envs.loader import short_name
from hotloop.errors import TrainingError
from hotloop.training.files import write_atomically

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.tracking.store_url import StoreUrl
    from hotloop.training.evaluation import Evaluation

Ending = Literal["solved", "steps", "episodes", "minutes", "iterations", "controller", "interrupted"]


@dataclass(frozen=True)
class Run:
    """What a run came to."""

    path: Path
    steps: int
    iterations: int
    episodes: int
    seconds: float
    """Of training, earlier parts of a resumed run included; imports and set-up are not."""
    steps_per_second: float
    return_mean: float
    """Over the last `train.until_episodes` finished episodes, with the actions as drawn; NaN if none has finished."""
    evaluation: Evaluation | None
    """The last one."""
    best: Evaluation | None
    """The best one; its checkpoint is what `hotloop.load(path)` takes."""
    ended: Ending
    """Which limit ended it."""
    config: Config

    @property
    def name(self) -> str:
        """The run's name, which is its folder's too."""
        return self.path.name

    @property
    def solved(self) -> bool:
        """Whether `train.until` was reached and confirmed."""
        return self.ended == "solved"


def home(given: str | Path | None = None) -> Path:
    """The folder under which everything of Hotloop lives: `HOTLOOP_HOME`, or `~/.hotloop`."""
    if given is not None:
        return Path(given)
    return Path(os.environ.get("HOTLOOP_HOME") or Path.home() / ".hotloop")


def find_run(run: str | Path, given_home: str | Path | None = None) -> Path:
    """The folder of a run, given its path or its name."""
    path = Path(run)
    if (path / "config.yaml").is_file():
        return path
    named = home(given_home) / "runs" / str(run)
    if (named / "config.yaml").is_file():
        return named
    raise TrainingError(f"there is no run {str(run)!r}: neither {path} nor {named} has a config.yaml")


def home_of(run: Path, given: str | Path | None = None) -> Path:
    """The home that a run's folder lies in: its own, if it looks like one."""
    if given is None and run.absolute().parent.name == "runs":
        return run.absolute().parent.parent
    return home(given)


def find_store(
    store: str | Path | None, given_home: str | Path | None = None, *, trackers: Sequence[str] = ()
) -> StoreUrl | None:
    """The store that is meant, nothing if that is `none`; what is needed for it and for trackers must be there."""
    from hotloop.errors import StoreError
    from hotloop.tracking.store_url import find_store_url
    from hotloop.tracking.trackers import must_be_installed

    try:
        must_be_installed(trackers)
        return find_store_url(store, home(given_home))
    except StoreError as error:
        raise TrainingError(str(error)) from None


class RunFolder:
    """A run's folder, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.replays = path / "replays"
        self._lock = _lock(path)

    @classmethod
    def create(cls, config: Config, *, name: str | None, given_home: str | Path | None) -> Self:
        """A new folder under the home, with the config in it."""
        env = re.sub(r"[^\w.+=@-]+", "-", short_name(config.env.name))
        name = name or f"{env}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        if not re.fullmatch(r"[\w][\w.+=@-]*", name):
            raise TrainingError(f"the name {name!r} cannot be a folder's: use letters, digits, and . _ - + = @")
        path = home(given_home) / "runs" / name
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise TrainingError(f"there is a run {name!r} already: resume it, or take another name") from None
        except OSError as error:
            raise TrainingError(f"cannot make the folder {path}: {error.strerror}") from None
        folder = cls(path)
        folder.write_config(config)
        return folder

    def write_config(self, config: Config) -> None:
        """Keeps the whole config with the run."""
        write_atomically(self.path / "config.yaml", config.to_yaml().encode())

    def abandon(self) -> None:
        """Removes the folder of a run that never began."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()

    def tell_status(self, status: str, **facts: Any) -> None:
        """Writes `run.json`: how the run stands, for people and for tools."""
        told = {"run": self.path.name, "status": status, "changed": now(), "process": os.getpid(), **facts}
        write_atomically(self.path / "run.json", json.dumps(told, indent=2).encode() + b"\n")

    def release(self) -> None:
        """Lets other processes write to the folder."""
        os.close(self._lock)


def now() -> str:
    """The time, as written in files."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _lock(path: Path) -> int:
    """Takes the folder; the system gives it back when the process ends, however it ends."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise TrainingError(f"the run {path.name!r} is in use: another process trains it") from None
    return handle
