"""Alerts of runs: the badge, the list, and the way to the place in the curve."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor
from tests.server.live_server import Server, train


@pytest.fixture
def collapsed(own_server: Server, tmp_path: Path) -> Server:
    """A server over a run whose env becomes much harder halfway."""
    moment = 64 * 32 * 40
    schedule = {"key": "env.max_steps", "start": 400, "end": 8, "begin_step": moment, "end_step": moment + 64 * 32}
    options = ("runner.num_envs=64", "ppo.horizon=32", "track.interval=1", "train.until_episodes=50")
    schedules = f"control.schedules={json.dumps([schedule])}"
    train(tmp_path, "cartpole", "--name", "fallen", "--steps", "120k", "--until", "100000", *options, schedules)
    return own_server


@pytest.mark.full
def test_an_alert_is_announced_leads_to_its_cause_and_can_be_put_away(visitor: Visitor, collapsed: Server) -> None:
    visitor.server = collapsed
    page = visitor.open("/runs", sign_in=True)
    expect(page.get_by_role("link", name="Alerts 1 new")).to_be_visible()
    expect(page).to_have_title("(1) Runs · Hotloop")
    page.get_by_role("link", name="Alerts").click()
    alert = page.get_by_role("row", name="return-collapsed")
    expect(alert).to_contain_text("fallen")
    alert.get_by_title("Show the place in the curve").click()
    panel = page.get_by_role("region", name="Why did it change?")
    expect(panel).to_contain_text("env.max_steps = 8")
    expect(panel).to_contain_text("return-collapsed")
    expect(panel.get_by_role("rowheader").first).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Mute run").click()
    expect(page.get_by_text("All alerts are muted")).to_be_visible()
    page.get_by_label("Muted ones too").check()
    page.get_by_role("button", name="Mark 1 as seen").click()
    expect(page).to_have_title("Alerts · Hotloop")
