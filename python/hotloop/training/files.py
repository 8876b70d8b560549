"""Files that are either there as a whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    """Writes a file and waits until the disk has it."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Waits until the disk knows the names in a folder."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file; readers see the old one or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def place_folder(target: Path, files: dict[str, bytes]) -> None:
    """Makes a folder with these files appear at once, in place of an older one of that name."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for name, data in files.items():
            write_synced(temporary / name, data)
        sync_folder(temporary)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(target.parent)


def remove_leftovers(folder: Path) -> None:
    """Removes what processes left that were killed while writing."""
    for path in folder.glob(".*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
