"""How people name runs on the command line: a path, a name, an id, the beginning of one, or `last`."""

from difflib import get_close_matches
from pathlib import Path

from hotloop.cli.output import UserError
from hotloop.training.runs import home


def find(text: str) -> Path:
    """The folder that the text names."""
    given = Path(text)
    if given.is_dir() and any((given / name).is_file() for name in ("config.yaml", "manifest.json")):
        return given
    runs = {path.parent.name: path.parent for path in (home() / "runs").glob("*/config.yaml")}
    if text in runs:
        return runs[text]
    if not runs:
        raise UserError(f"there is no run {text!r}: {home() / 'runs'} has none yet")
    if text == "last":
        return max(runs.values(), key=lambda path: ((path / "config.yaml").stat().st_mtime_ns, path.name))
    fitting = sorted(name for name in runs if name.startswith(text)) or _by_id(runs, text)
    if len(fitting) == 1:
        return runs[fitting[0]]
    if fitting:
        more = f" and {len(fitting) - 3} more" if len(fitting) > 3 else ""
        raise UserError(f"{text!r} could be any of {', '.join(fitting[:3])}{more}: say more of the name")
    near = get_close_matches(text, runs, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f" in {home() / 'runs'}"
    raise UserError(f"there is no run {text!r}{hint}")


def _by_id(runs: dict[str, Path], text: str) -> list[str]:
    """The names of the runs whose id begins so."""
    from hotloop.tracking import journal

    firsts = {name: journal.first_start(path / journal.NAME) for name, path in runs.items()}
    return sorted(name for name, first in firsts.items() if first is not None and first["id"].startswith(text))
