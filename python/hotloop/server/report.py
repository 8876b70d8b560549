"""A report of runs as one HTML file: the dashboard's charts and replays with the data inside, for any browser."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from hotloop import _core
from hotloop.envs.registry import is_native
from hotloop.episodes.best_replays import SUFFIX
from hotloop.episodes.frames import replay_frames
from hotloop.episodes.replay import read_replay
from hotloop.errors import ConfigError, ReplayError
from hotloop.server.responses import json_bytes
from hotloop.server.routes_series import series_entry
from hotloop.server.rows import RowMaker, evaluation
from hotloop.server.static import FOLDER
from hotloop.tracking.chart_series import Window, run_series
from hotloop.tracking.groups import find_differences
from hotloop.tracking.row_pages import row_page
from hotloop.tracking.run_cache import CachedStore
from hotloop.tracking.store import StoredRun, is_here

PAGE: Final = "report.html"
MARKER: Final = b'<script id="hotloop-data" type="application/json">null</script>'
_POINTS: Final = 300
_MOST_ROWS: Final = 5000


def write_report(store: CachedStore, texts: Sequence[str], replays: int, folder: Path = FOLDER) -> bytes:
    """The content of the file for these runs, with so many of the best replays of each."""
    page = folder / PAGE
    if not page.is_file():
        raise ConfigError(
            "the dashboard is not built, which a report is made of: in a checkout run 'make dashboard'; wheels have it"
        )
    template = page.read_bytes()
    if template.count(MARKER) != 1:
        raise ConfigError(f"{page} has no place for data: build the dashboard of this version ('make dashboard')")
    data = json_bytes(report_data(store, store.find_all(texts), replays))
    # Inside a script no text may end it, whatever a run is called.
    for character in (b"<", b">", b"&", b"\xe2\x80\xa8", b"\xe2\x80\xa9"):
        data = data.replace(character, f"\\u{ord(character.decode()):04x}".encode())
    return template.replace(MARKER, MARKER.replace(b"null", data))


def report_data(store: CachedStore, runs: Sequence[StoredRun], replays: int) -> dict[str, Any]:
    """The data of a report."""
    rows = RowMaker(store)
    names = {run.id: store.metric_names(run) for run in runs}
    series = []
    for run in runs:
        for name in names[run.id]:
            found = run_series(store, run, name, Window(count=_POINTS))
            if found is not None:
                series.append(series_entry([run], run.name, name, found, is_group=False))
    settings = find_differences(runs)
    return {
        "version": _core.__version__,
        "created": time.time(),
        # A path of this machine means nothing on another.
        "runs": [{**rows.detail(run), "path": None, "can_stop": False} for run in runs],
        "metrics": names,
        "series": series,
        "evaluations": {
            run.id: [evaluation(row) for row in row_page(store, "evaluations", run, limit=_MOST_ROWS).rows]
            for run in runs
        },
        "events": {run.id: row_page(store, "events", run, limit=_MOST_ROWS).rows for run in runs},
        "settings": [
            {"key": key, "values": [one[key] for one in settings]} for key in (settings[0] if settings else ())
        ],
        "replays": [entry for run in runs for entry in _replays(run, replays)],
    }


def _replays(run: StoredRun, most: int) -> list[dict[str, Any]]:
    """The best replays of a run that repeat as recorded."""
    if not most or not is_here(run) or not is_native(run.env) or not _core.has_env(run.env):
        return []
    found = []
    for path in (run.path / "replays").glob(f"*{SUFFIX}"):
        try:
            found.append((path, read_replay(path)))
        except ReplayError:
            continue
    found.sort(key=lambda entry: (-entry[1].total, entry[0].name))
    result: list[dict[str, Any]] = []
    for path, replay in found:
        if len(result) == most:
            break
        try:
            frames = replay_frames(replay, f"{run.name}, return {replay.total:.6g}")
        except ReplayError:
            continue
        result.append({"run": run.id, "name": path.name, "frames": frames})
    return result
