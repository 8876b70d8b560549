"""Reports: one file with everything inside, whatever runs are called."""

import json
import re
from pathlib import Path

import pytest

from hotloop.errors import ConfigError
from hotloop.server.report import MARKER, write_report
from hotloop.tracking.run_cache import CachedStore

PAGE = b"<!doctype html><html><body>" + MARKER + b"</body></html>"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A built dashboard, as far as a report needs it."""
    (tmp_path / "report.html").write_bytes(PAGE)
    return tmp_path


def test_a_report_has_series_settings_and_replays_inside(trained: Path, built: Path) -> None:
    with CachedStore(home=trained, read_only=False, query_limit=60.0) as store:
        text = write_report(store, ["seed-1", "other"], 1, built).decode()
        points = {name: len(store.series(store.find("seed-1"), name).values) for name in ("kl", "entropy")}
    (inside,) = re.findall(r'<script id="hotloop-data" type="application/json">(.*)</script>', text)
    data = json.loads(inside)
    assert [run["name"] for run in data["runs"]] == ["seed-1", "other"]
    assert str(trained) not in text
    series = {entry["metric"]: entry for entry in data["series"] if entry["label"] == "seed-1"}
    assert {name: len(series[name]["first"]) for name in points} == points
    assert {setting["key"]: setting["values"] for setting in data["settings"]}["ppo.epochs"] == [1, 2]
    assert [replay["frames"]["checked"] for replay in data["replays"]] == [True, True]


def test_no_name_gets_out_of_the_script(trained: Path, built: Path) -> None:
    from hotloop.tracking.marks import write_marks

    evil = "</script><img src=x onerror=alert(1)>\u2028&"
    with CachedStore(home=trained, read_only=False, query_limit=60.0) as store:
        run = store.find("seed-2")
        write_marks(store, run, {"note": evil})
        try:
            text = write_report(store, ["seed-2"], 0, built).decode()
        finally:
            write_marks(store, run, {"note": ""})
    assert text.count("</script>") == 1
    assert "<img" not in text
    assert "\u2028" not in text
    (inside,) = re.findall(r"json\">(.*)</script>", text)
    assert json.loads(inside)["runs"][0]["note"] == evil


def test_a_dashboard_that_is_not_built_is_named(trained: Path, tmp_path: Path) -> None:
    with CachedStore(home=trained, read_only=False, query_limit=60.0) as store:
        with pytest.raises(ConfigError, match="make dashboard"):
            write_report(store, ["seed-1"], 0, tmp_path)
        (tmp_path / "report.html").write_bytes(b"<html>")
        with pytest.raises(ConfigError, match="no place for data"):
            write_report(store, ["seed-1"], 0, tmp_path)
