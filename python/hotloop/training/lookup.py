"""Finding a run by its path, name, id, the beginning of one, or `last`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from hotloop.errors import TrainingError
from hotloop.tracking import journal
from hotloop.tracking.store_url import runs_folder
from hotloop.training.checkpoint import MANIFEST
from hotloop.training.runs import CONFIG, home

_LONGEST = 200


def find_run(run: str | Path, given_home: str | Path | None = None, *, envs: Sequence[str] = ()) -> Path:
    """Return the folder of a run, or of a checkpoint given by its path.

    Args:
        run: A path, a name or an id, the beginning of one that fits only one run, or `last`.
        given_home: Folder that holds all runs.
        envs: Names of envs that could be meant as well, for the error message.
    """
    text, folder = str(run), runs_folder(home(given_home))
    try:
        if any(os.path.lexists(Path(run) / name) for name in (CONFIG, MANIFEST)):
            return Path(run)
    except ValueError:
        pass  # a null byte: nothing can have that name
    runs = {path.parent.name: path.parent for path in folder.glob(f"*/{CONFIG}")}
    if text in runs:
        return runs[text]
    if text and "/" not in text and os.path.isdir(folder / text):  # noqa: PTH112 - a name of any length is no error
        raise TrainingError(f"the run {text!r} is damaged: {folder / text} has no readable {CONFIG}")
    if text == "last" and runs:
        return max(runs.values(), key=lambda path: (_begun(path), path.name))
    fitting = sorted(name for name in runs if text and name.startswith(text)) or _by_id(runs, text)
    if len(fitting) == 1:
        return runs[fitting[0]]
    if fitting:
        more = f" and {len(fitting) - 3} more" if len(fitting) > 3 else ""
        raise TrainingError(f"{text!r} is ambiguous: {', '.join(fitting[:3])}{more}; type more of the name")
    shown, kind = text[:_LONGEST], "run and no env" if envs else "run"
    if near := get_close_matches(shown, [*envs, *runs], n=1):
        raise TrainingError(f"there is no {kind} {shown!r}; did you mean {near[0]!r}?")
    where = f" in {folder}" if runs else f": {folder} has none yet"
    if text and os.path.isdir(text):  # noqa: PTH112
        where = f": the folder has no {CONFIG}"
    raise TrainingError(f"there is no {kind} {shown!r}{where}")


def _begun(path: Path) -> float:
    """Return the start time of a run, by which the store orders runs, too; resuming does not change it."""
    first = journal.find_start(path / journal.NAME)
    return float(first["at"]) if first is not None else (path / CONFIG).stat().st_mtime


def _by_id(runs: dict[str, Path], text: str) -> list[str]:
    """Return the names of runs whose id starts with this text."""
    firsts = {name: journal.find_start(path / journal.NAME) for name, path in runs.items()} if text else {}
    return sorted(name for name, first in firsts.items() if first is not None and first["id"].startswith(text))
