"""Reports of `hotloop runs report --html`: one file, opened without a server or a network."""

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.test_watch import picture, shown_step
from tests.browser.visitor import Visitor, axe_violations, chart, wait_until
from tests.cli.command import hotloop
from tests.server.live_server import train


def test_a_report_is_one_file_that_needs_no_network(visitor: Visitor, repository: Path, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    for seed, name in (("1", "one"), ("2", "two")):
        train(tmp_path, "cartpole", "--seed", seed, "--name", name, "--steps", "40k")
    train(tmp_path, "cartpole", "--name", "three", "--steps", "40k", "ppo.epochs=2")
    report = tmp_path / "report.html"
    names = ("one", "two", "three")
    assert hotloop("runs", "report", *names, "--html", str(report), HOTLOOP_HOME=str(tmp_path)).returncode == 0
    report.write_text(report.read_text().replace('"name":"two"', f'"name":"{hostile}"'.replace("<", "\\u003c")))
    page = visitor.profile(offline=True).new_page()
    visitor.watch(page)
    page.goto(report.as_uri())
    expect(page.get_by_role("heading", name="3 runs")).to_be_visible()
    chart(page, "return_recent")
    chart(page, "entropy")
    wait_until(page, lambda: shown_step(page) > 0, "the replay plays")
    page.keyboard.press(" ")
    before = picture(page)
    page.keyboard.press(".")
    assert picture(page) != before
    expect(page.get_by_role("rowheader", name="ppo.epochs")).to_be_visible()
    expect(page.get_by_role("columnheader", name=hostile)).to_be_visible()
    assert axe_violations(page, repository) == []
