"""Sweeps and jobs: lists, pictures, a log that follows, and actions."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from hotloop.sweeps.api import finish
from hotloop.sweeps.display import Silent
from hotloop.training.interrupts import Interrupts
from tests.browser.visitor import Visitor, axe_violations, wait_until
from tests.server.live_server import Server
from tests.sweeps.small import new_sweep


def test_a_sweep_is_listed_and_its_trials_are_selected_by_brushing(
    visitor: Visitor, own_server: Server, tmp_path: Path, repository: Path
) -> None:
    sweep = new_sweep(tmp_path, "mine", trials=8, sampler="sobol")
    assert finish(sweep, 2, Silent(), Interrupts())
    assert sweep.best is not None
    visitor.server = own_server
    page = visitor.open("/runs")
    page.get_by_role("link", name="Sweeps").click()
    page.get_by_role("link", name="mine").click()
    expect(page.get_by_text(f"Best: trial {sweep.best.index}")).to_be_visible()
    trials = page.get_by_role("region", name="Trials", exact=True).get_by_role("row")
    expect(trials).to_have_count(1 + 8)
    lines = page.locator("polyline.line[opacity='1']")
    shown = lines.count()
    area = page.locator(".brush-area").first.bounding_box()
    assert area is not None
    middle = area["x"] + area["width"] / 2
    page.mouse.move(middle, area["y"] + 2)
    page.mouse.down()
    page.mouse.move(middle, area["y"] + area["height"] / 2, steps=4)
    page.mouse.up()
    wait_until(page, lambda: 0 < lines.count() < shown, "trials outside of the range are faint")
    page.get_by_label("Sort by").select_option("trial")
    expect(trials.nth(1).get_by_role("rowheader")).to_have_text("0")
    page.reload()
    expect(trials.nth(1).get_by_role("rowheader")).to_have_text("0")
    assert axe_violations(page, repository) == []


def test_a_job_is_watched_cancelled_and_queued_again(
    visitor: Visitor, own_server: Server, tmp_path: Path, repository: Path
) -> None:
    environment = {**os.environ, "HOTLOOP_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "hotloop"]
    visitor.server = own_server
    page = visitor.open("/jobs", sign_in=True)
    expect(page.get_by_text("No job yet")).to_be_visible()
    submit = ["train", "cartpole", "--steps", "1G", "--until", "none", "--queue", "--name", "long"]
    subprocess.run([*command, *submit], env=environment, check=True, capture_output=True)
    expect(page.get_by_role("row", name="queued")).to_be_visible()
    expect(page.get_by_text("Nobody runs jobs")).to_be_visible()
    with subprocess.Popen([*command, "jobs", "work"], env=environment, stderr=subprocess.DEVNULL) as worker:
        try:
            expect(page.get_by_role("row", name="running")).to_be_visible()
            assert axe_violations(page, repository) == []
            page.get_by_role("link", name="1", exact=True).click()
            expect(page.get_by_role("progressbar")).to_be_visible()
            page.get_by_role("button", name="Cancel").click()
            expect(page.get_by_role("button", name="Retry")).to_be_visible()
            expect(page.get_by_role("row", name="cancelled")).to_be_visible()
            assert axe_violations(page, repository) == []
            page.get_by_role("button", name="Retry").click()
            expect(page.get_by_role("button", name="Cancel")).to_be_visible()
            page.get_by_role("button", name="Cancel").click()
            expect(page.get_by_role("button", name="Retry")).to_be_visible()
        finally:
            worker.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("address", ["/sweeps", "/jobs", "/sweeps/none", "/jobs/77"])
def test_pages_without_anything_say_what_to_do(visitor: Visitor, own_server: Server, address: str) -> None:
    visitor.server = own_server
    page = visitor.open(address)
    text = {
        "/sweeps": "hotloop sweep cartpole",
        "/jobs": "hotloop train cartpole --queue",
        "/sweeps/none": "there is no sweep 'none'",
        "/jobs/77": "there is no job 77",
    }
    expect(page.get_by_text(text[address]).first).to_be_visible()
