"""The folder of a run: where it lies, what is in it, and who may write to it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from hotloop import files
from hotloop.envs.loader import short_name
from hotloop.errors import CheckpointError, TrainingError
from hotloop.files import UnreadableFileError, write_atomically
from hotloop.text import measured, short
from hotloop.training.checkpoint import FIRST, FOLDER, RECOVERY, check_folder, checkpoint_paths, load_first
from hotloop.training.trust import forget, remember

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.policies.evaluation import Evaluation
    from hotloop.tracking.store_url import StoreUrl
    from hotloop.training.checkpoint import Arrays

CONFIG: Final = "config.yaml"
STATUS: Final = "run.json"
_LONGEST_NAME: Final = 200
Ending = Literal["solved", "steps", "episodes", "minutes", "iterations", "controller", "callback", "interrupted"]


@dataclass(frozen=True, repr=False)
class Run:
    """The outcome of a run."""

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
    """The limit that ended it."""
    config: Config

    @property
    def name(self) -> str:
        """The run's name, which is its folder's too."""
        return self.path.name

    @property
    def solved(self) -> bool:
        """Whether `train.until` was reached and confirmed."""
        return self.ended == "solved"

    def metrics(self) -> Any:
        """Return every recorded metric by step: a pandas DataFrame, or a dict of arrays if pandas is not installed."""
        from hotloop.training.run_metrics import read_metrics

        return read_metrics(self.path)

    def plot(self, metric: str = "return_recent", *, smooth: float = 0.0) -> Any:
        """Return a picture of a metric over the steps, as a Pillow image: notebooks show it, `save` writes it.

        Args:
            metric: Name of a metric, as in `metrics()`.
            smooth: Smoothing weight from 0 to 0.999; the raw curve is drawn behind.
        """
        from hotloop.training.run_metrics import draw_metric

        return draw_metric(self.path, metric, smooth)

    def __repr__(self) -> str:
        found = "" if self.evaluation is None else f", evaluation {measured(self.evaluation.mean)}"
        return (
            f"Run({self.name!r}: {self.ended} after {short(self.steps)} steps, return {measured(self.return_mean)}"
            f"{found})"
        )


def home(given: str | Path | None = None) -> Path:
    """The folder under which everything of Hotloop lives: `HOTLOOP_HOME`, or `~/.hotloop`."""
    if given is not None:
        return Path(given)
    return Path(os.environ.get("HOTLOOP_HOME") or Path.home() / ".hotloop")


def home_of(run: Path, given: str | Path | None = None) -> Path:
    """The home that a run's folder lies in: its own, if it looks like one."""
    from hotloop.tracking.store_url import FILE

    folder = run.absolute().parent
    if given is not None or folder.name != "runs":
        return home(given)
    return folder if (folder / FILE).exists() else folder.parent


def find_store(
    store: str | Path | None, given_home: str | Path | None = None, *, trackers: Sequence[str] = ()
) -> StoreUrl | None:
    """The store that is meant, nothing if that is `none`; what is needed for it and for trackers must be there."""
    from hotloop.errors import StoreError
    from hotloop.tracking.store_url import find_store_url
    from hotloop.tracking.trackers import check_installed

    try:
        check_installed(trackers)
        return find_store_url(store, home(given_home))
    except StoreError as error:
        raise TrainingError(str(error)) from None


class RunFolder:
    """A run's folder, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / FOLDER
        self.recovery = path / RECOVERY
        self.replays = path / "replays"
        self._lock = _lock(path)
        try:
            for folder in (self.checkpoints, self.recovery, self.replays):
                check_folder(folder)
        except CheckpointError:
            self.release()
            raise
        # Read once, so that no error of the disk later on loses them; a second time if the first one fails.
        status = read_status(path) or read_status(path)
        self._covered: dict[str, Any] = {key: status[key] for key in ("config", "files") if key in status}

    @classmethod
    def create(
        cls,
        config: Config,
        *,
        name: str | None,
        given_home: str | Path | None,
        first: bytes | None = None,
        opponents: Mapping[str, bytes] | None = None,
        code: Sequence[str] = (),
    ) -> Self:
        """Return a new folder under the home, with the config, and initial weights and opponents (if given), in it.

        It appears at once: a failure or a kill leaves nothing that would block the name. `code` is what the run may
        execute when it is resumed.
        """
        from hotloop.tracking.store_url import runs_folder

        env = re.sub(r"[^\w.+=@-]+", "-", short_name(config.env.name))
        name = name or f"{env}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        if not re.fullmatch(r"[\w][\w.+=@-]*", name):
            raise TrainingError(f"the name {name[:200]!r} is invalid: use letters, digits, and . _ - + = @")
        if len(name.encode()) > _LONGEST_NAME:
            raise TrainingError(
                f"the name {name[:20]}... has {len(name)} characters: at most {_LONGEST_NAME} bytes fit"
            )
        path = runs_folder(home(given_home)) / name
        content = {CONFIG: config.to_yaml().encode(), **({} if first is None else {FIRST: first})}
        covered = {name: files.checksum(data) for name, data in content.items()}
        content |= {STATUS: files.seal(_status(path, "created", covered, config)), **(opponents or {})}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise FileExistsError
            # Before the folder appears: a run that is killed right then can be resumed.
            remember(path, code)
            # Of several processes that come this far with one name, one succeeds.
            files.place_folder(path, content, staging=path.parent.parent, replace=False)
        except OSError as error:
            if path.exists() and (isinstance(error, FileExistsError) or error.errno == errno.ENOTEMPTY):
                raise TrainingError(f"there is a run {name!r} already: resume it, or take another name") from None
            forget(path, code)
            is_file = path.parent.exists() and not path.parent.is_dir()
            why = f"{path.parent} is not a folder" if is_file else error.strerror
            raise TrainingError(f"cannot make the folder {path}: {why}") from None
        return cls(path)

    def write_config(self, config: Config) -> None:
        """Replace the run's config, on purpose: its checksum follows."""
        data = config.to_yaml().encode()
        write_atomically(self.path / CONFIG, data)
        covered = {**self._covered.get("files", {}), CONFIG: files.checksum(data)}
        self._covered = {"config": config.model_dump(mode="json"), "files": covered}
        write_atomically(self.path / STATUS, files.seal({**read_status(self.path), **self._covered}))

    def abandon(self, code: Sequence[str]) -> None:
        """Remove the folder of a run that never began, and the marks of its code."""
        shutil.rmtree(self.path, ignore_errors=True)
        forget(self.path, code)
        self.release()

    def write_status(self, status: str, **facts: Any) -> None:
        """Write `run.json`: the run's status for people and tools, and the checksums of the files beside it."""
        full: dict[str, Any] = {
            "run": self.path.name,
            "status": status,
            "changed": now(),
            "process": os.getpid(),
            **facts,
            **self._covered,
        }
        write_atomically(self.path / STATUS, files.seal(full))

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Turn disk errors into a `TrainingError` that says how to go on; files written before are intact."""
        try:
            yield
        except OSError as error:
            saved = checkpoint_paths(self.checkpoints)
            last = f"its checkpoint at step {saved[-1].name}" if saved else "its start"
            where = error.filename2 or error.filename or self.path
            raise TrainingError(
                f"cannot write to {where}: {error.strerror or error}. Once that is settled the run can be "
                f"resumed from {last}: hotloop train --resume {self.path.name}"
            ) from error

    def release(self) -> None:
        """Unlock the folder."""
        os.close(self._lock)


def read_status(run: Path) -> dict[str, Any]:
    """Return the content of `run.json`; empty if it is absent or does not match its checksum."""
    try:
        facts = files.read_object(run / STATUS)
    except UnreadableFileError:
        return {}
    return facts if files.is_sealed(facts) else {}


def read_first(run: Path) -> tuple[Arrays, Arrays] | None:
    """Return the weights and statistics that a run began with, if they were another run's."""
    path = run / FIRST
    covered = read_status(run).get("files")
    expected = None if covered is None else covered.get(FIRST)
    if expected is None and not os.path.lexists(path):
        return None
    try:
        data = files.read_bytes(path)
    except UnreadableFileError as error:
        raise CheckpointError(f"the run {run} is damaged: {error}") from None
    if covered is not None and files.checksum(data) != expected:
        raise CheckpointError(
            f"the run {run} is damaged: {FIRST}, its initial weights, does not match its checksum in {STATUS}"
        )
    return load_first(data, path)


def config_changes(run: Path, config: Config) -> list[str]:
    """Return how `config.yaml` differs from what Hotloop wrote, as `key was X, is Y`."""
    before = read_status(run).get("config")
    return [] if before is None else differences(before, config.model_dump(mode="json"))


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """Return how two nested values differ, as `key was X, is Y`."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            found
            for key in dict.fromkeys((*old, *new))
            for found in differences(old.get(key), new.get(key), f"{name}.{key}".strip("."))
        ]
    return [] if old == new else [f"{name} was {old!r}, is {new!r}"]


def _status(path: Path, status: str, covered: dict[str, Any], config: Config) -> dict[str, Any]:
    return {
        "run": path.name,
        "status": status,
        "changed": now(),
        "process": None,
        "config": config.model_dump(mode="json"),
        "files": covered,
    }


def now() -> str:
    """The time, as written in files."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _lock(path: Path) -> int:
    """Lock the folder; the system releases it when the process ends, however it ends."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise TrainingError(f"the run {path.name!r} is in use: another process trains it") from None
    return handle
