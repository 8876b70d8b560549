"""Files that are complete or absent whatever happens meanwhile, and reads that neither block nor follow links."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

# Generous for a manifest or a status; a larger file is not one.
JSON_LIMIT: Final = 16 << 20
_SEAL: Final = "sha256"


class UnreadableFileError(Exception):
    """A file that cannot be read, or is not what it should be; the message says why."""


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """Return the content of a regular file; links, pipes, devices and files above `limit` bytes are refused."""
    try:
        # A pipe without a writer must not block, and a link may lead anywhere.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise UnreadableFileError(f"cannot read {path.name}: {why}") from None
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise UnreadableFileError(f"cannot read {path.name}: it is not a regular file")
        if limit is not None and facts.st_size > limit:
            raise UnreadableFileError(f"{path.name} has {facts.st_size} bytes, more than the {limit} expected at most")
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    except OSError as error:
        raise UnreadableFileError(f"cannot read {path.name}: {error.strerror}") from None
    except MemoryError:
        raise UnreadableFileError(f"cannot read {path.name}: it is larger than the memory") from None
    finally:
        os.close(handle)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    data = read_bytes(path, JSON_LIMIT)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise UnreadableFileError(f"{path.name} is not valid JSON") from None
    if not isinstance(found, dict):
        raise UnreadableFileError(f"{path.name} does not hold a JSON object")
    return found


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file; readers see the old content or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Whatever has that name, a link perhaps, is never written through.
        temporary.unlink(missing_ok=True)
        write_synced(temporary, data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file to write to; its content is at `path` if the block succeeds, and nowhere if it fails.

    For files that users name: a link is followed and stays, and a device or a pipe is written to, never replaced.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        with tempfile.TemporaryDirectory(prefix="hotloop-") as folder:
            part = Path(folder) / path.name
            yield part
            with part.open("rb") as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
        return
    path = Path(os.path.realpath(path))
    part = path.with_name(f".{path.stem[:100]}.{os.getpid()}{path.suffix}")
    try:
        yield part
        if permissions := stat.S_IMODE(mode):
            part.chmod(permissions)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def place_folder(
    target: Path,
    files: dict[str, bytes],
    staging: Path | None = None,
    *,
    durable: bool = True,
    replace: bool = True,
) -> None:
    """Make a folder with these files, some of them in folders of it, appear at once, in place of an older one.

    While an older one is replaced it has the name `.NAME.replaced`; `remove_leftovers` brings it back after a kill.
    Without `replace` one that is not empty stays, and an `OSError` is raised. The folder is written in `staging`, by
    default beside the target. Unless it is to be `durable`, the disk is not waited for.
    """
    temporary = (staging or target.parent) / f".{target.name}.{os.getpid()}"
    replaced = target.with_name(_replaced(target.name))
    try:
        if os.path.lexists(temporary):
            _remove(temporary)
        temporary.mkdir(parents=True)
        for name, data in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            if durable:
                write_synced(temporary / name, data)
            else:
                (temporary / name).write_bytes(data)
        for folder in (temporary, *filter(Path.is_dir, temporary.rglob("*"))) if durable else ():
            sync_folder(folder)
        if replace and os.path.lexists(target):
            target.rename(replaced)
        temporary.rename(target)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if replace and os.path.lexists(replaced):
            replaced.rename(target)
        raise
    if durable:
        sync_folder(target.parent)
    if replace and os.path.lexists(replaced):
        _remove(replaced)


def remove_folder(path: Path) -> None:
    """Remove a folder so that a kill leaves nothing under its name."""
    hidden = path.with_name(f".{path.name}.removed")
    shutil.rmtree(hidden, ignore_errors=True)
    path.rename(hidden)
    shutil.rmtree(hidden)


def set_aside(path: Path, folder: Path) -> Path:
    """Move a file or folder out of the way, into `folder`, without overwriting anything; return where it is now."""
    folder.mkdir(exist_ok=True)
    target = folder / path.name
    count = 1
    while os.path.lexists(target):
        count += 1
        target = folder / f"{path.name}.{count}"
    path.rename(target)
    return target


def unused_name(folder: Path, stem: str) -> Path:
    """Return the first of `STEM-1`, `STEM-2`, ... that does not exist."""
    number = 1
    while os.path.lexists(folder / f"{stem}-{number}"):
        number += 1
    return folder / f"{stem}-{number}"


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half-written, and bring back what they had not replaced yet."""
    for path in folder.glob(".*"):
        name = path.name.removeprefix(".").removesuffix(".replaced")
        if path.name == _replaced(name) and not os.path.lexists(folder / name):
            path.rename(folder / name)
        else:
            with contextlib.suppress(OSError):
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder with all it holds."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _replaced(name: str) -> str:
    return f".{name}.replaced"


def checksum(data: bytes) -> dict[str, Any]:
    """Return the entry that covers a file in a manifest."""
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def seal(facts: dict[str, Any]) -> bytes:
    """Return facts as a JSON file with a checksum of themselves; facts that were read from one may have an old one."""
    own = _without_seal(facts)
    return json.dumps({**own, _SEAL: _digest(own)}, indent=2).encode() + b"\n"


def is_sealed(facts: dict[str, Any]) -> bool:
    """Return whether the facts of a JSON file match their checksum."""
    return facts.get(_SEAL) == _digest(_without_seal(facts))


def _without_seal(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key != _SEAL}


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
