"""The page that an HTML report is made of: one file, opened without a server."""

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.browser.test_watch import picture, shown_step
from tests.browser.visitor import Visitor, axe_violations, chart, wait_until
from tests.server.serving import Server

HOSTILE = "</script><script>alert(1)</script>"


def report_data(server: Server, *names: str) -> dict[str, Any]:
    """The content of a report, from the API."""
    runs = [server.get(f"/api/rl/runs/{name}") for name in names]
    query = "&".join(f"run={name}" for name in names)
    series = server.get(f"/api/rl/series?{query}&metric=return_recent&metric=entropy")["series"]
    name = server.get(f"/api/rl/runs/{names[0]}/replays")["replays"][0]["name"]
    frames = server.get(f"/api/rl/runs/{names[0]}/replays/{name}/frames")
    return {
        "version": "0",
        "created": 1_800_000_000.0,
        "runs": [{**run, "note": HOSTILE} for run in runs],
        "series": series,
        "evaluations": {run["id"]: server.get(f"/api/rl/runs/{run['id']}/evaluations")["evaluations"] for run in runs},
        "events": {run["id"]: [] for run in runs},
        "settings": [{"key": "ppo.epochs", "values": [1, HOSTILE]}],
        "replays": [{"run": runs[0]["id"], "name": name, "frames": frames}],
    }


def test_a_report_is_one_file_that_needs_no_network(reader: Visitor, repository: Path, tmp_path: Path) -> None:
    assert reader.server is not None
    template = (repository / "python/hotloop/server/static/report.html").read_text()
    data = json.dumps(report_data(reader.server, "seed-1", "other")).replace("<", "\\u003c")
    marker = '<script id="hotloop-data" type="application/json">null</script>'
    assert template.count(marker) == 1
    report = tmp_path / "report.html"
    report.write_text(template.replace(marker, marker.replace("null", data)))
    page = reader.profile(offline=True).new_page()
    reader.watch(page)
    page.goto(report.as_uri())
    expect(page.get_by_role("heading", name="2 runs")).to_be_visible()
    chart(page, "return_recent")
    chart(page, "entropy")
    wait_until(page, lambda: shown_step(page) > 0, "the replay plays")
    page.keyboard.press(" ")
    before = picture(page)
    page.keyboard.press(".")
    assert picture(page) != before
    expect(page.get_by_role("cell", name=HOSTILE)).to_be_visible()
    assert axe_violations(page, repository) == []
