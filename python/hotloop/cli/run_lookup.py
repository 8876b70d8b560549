"""Find a run by its path, name, id, the beginning of one, or `last`."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from hotloop.cli.output import UserError
from hotloop.training.runs import home


def find(text: str, envs: Sequence[str] = ()) -> Path:
    """Return the run's folder. `envs` are env names that would be valid here, too, for the error message."""
    given = Path(text)
    if given.is_dir() and any((given / name).is_file() for name in ("config.yaml", "manifest.json")):
        return given
    runs = {path.parent.name: path.parent for path in (home() / "runs").glob("*/config.yaml")}
    if text in runs:
        return runs[text]
    if text == "last" and runs:
        return max(runs.values(), key=lambda path: (_begun(path), path.name))
    fitting = sorted(name for name in runs if name.startswith(text)) or _by_id(runs, text)
    if len(fitting) == 1:
        return runs[fitting[0]]
    if fitting:
        more = f" and {len(fitting) - 3} more" if len(fitting) > 3 else ""
        raise UserError(f"{text!r} is ambiguous: {', '.join(fitting[:3])}{more}; type more of the name")
    kind = "run and no env" if envs else "run"
    if near := get_close_matches(text, [*envs, *runs], n=1):
        raise UserError(f"there is no {kind} {text!r}; did you mean {near[0]!r}?")
    where = f" in {home() / 'runs'}" if runs else f": {home() / 'runs'} has none yet"
    raise UserError(f"there is no {kind} {text!r}{where}")


def _begun(path: Path) -> float:
    """Return the start time of a run, by which the store orders runs, too; resuming does not change it."""
    from hotloop.tracking import journal

    first = journal.find_start(path / journal.NAME)
    return float(first["at"]) if first is not None else (path / "config.yaml").stat().st_mtime


def _by_id(runs: dict[str, Path], text: str) -> list[str]:
    """Return the names of runs whose id starts with this text."""
    from hotloop.tracking import journal

    firsts = {name: journal.find_start(path / journal.NAME) for name, path in runs.items()}
    return sorted(name for name, first in firsts.items() if first is not None and first["id"].startswith(text))
