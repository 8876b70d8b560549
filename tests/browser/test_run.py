"""The page of a run: live curves, zoom, the time machine, and everything that changes a run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.visitor import Visitor, chart, wait_until
from tests.server.live_server import Server, train


def run_id(server: Server, name: str) -> str:
    found: str = server.get(f"/api/rl/runs/{name}")["id"]
    return found


def shown_series(page: Page, metric: str) -> list[list[str]]:
    """The points that a chart shows, read from its table."""
    section = page.get_by_role("region", name=metric, exact=True)
    section.get_by_role("button", name=f"Menu of the chart {metric}").click()
    section.get_by_label("As a table").check()
    page.keyboard.press("Escape")
    return [row.locator("td").all_inner_texts() for row in section.locator("tbody tr").all()]


def test_a_chart_shows_exactly_the_points_that_the_server_has(reader: Visitor) -> None:
    assert reader.server is not None
    page = reader.open("/runs/seed-1")
    chart(page, "return_recent")
    rows = shown_series(page, "return_recent")
    entry = reader.server.get("/api/rl/series?run=seed-1&metric=return_recent")["series"][0]
    assert [int(row[0].replace("\u2009", "")) for row in rows] == entry["last"]
    assert [float(row[1].removesuffix(" k")) for row in rows] == [float(f"{value:.4g}") for value in entry["mean"]]


@pytest.mark.full
def test_dragging_zooms_all_charts_and_a_double_click_shows_everything_again(reader: Visitor) -> None:
    page = reader.open("/runs/seed-1")
    place = chart(page, "return_recent").locator(".u-over").bounding_box()
    middle = place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + place["width"] * 0.25, middle)
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] * 0.6, middle, steps=5)
    page.mouse.up()
    page.wait_for_url("**from=*")
    window = page.get_by_title("Double click on a chart, or Esc")
    expect(window).to_be_visible()
    rows = shown_series(page, "return_mean")
    low, high = (int(page.url.split(f"{key}=")[1].split("&")[0]) for key in ("from", "to"))
    assert rows
    assert all(low <= int(row[0].replace("\u2009", "")) <= high for row in rows)
    chart(page, "return_recent").locator(".u-over").dblclick()
    expect(window).to_have_count(0)
    assert "from=" not in page.url


def test_a_click_on_a_curve_plays_the_policy_of_that_step(reader: Visitor) -> None:
    page = reader.open("/runs/seed-1", sign_in=True)
    place = chart(page, "return_recent").locator(".u-over").bounding_box()
    page.mouse.move(place["x"] + place["width"] * 0.5, place["y"] + 40)
    page.mouse.click(place["x"] + place["width"] * 0.5, place["y"] + 40)
    panel = page.get_by_role("complementary", name="The policy at step")
    expect(panel.locator("canvas[role=img]")).to_be_visible()
    expect(panel.locator("figcaption")).to_contain_text("at step")
    assert "at=" in page.url
    panel.get_by_role("button", name="Open in Watch").click()
    expect(page.get_by_role("tab", name="Watch")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("list", name="Action probabilities")).to_be_visible()


@pytest.mark.full
def test_arrow_keys_move_the_crosshair_and_speak_its_value(reader: Visitor) -> None:
    assert reader.server is not None
    page = reader.open("/runs/seed-1")
    plot = chart(page, "return_recent").locator(".plot")
    plot.focus()
    plot.press("Home")
    entry = reader.server.get("/api/rl/series?run=seed-1&metric=return_recent")["series"][0]
    first = f"{entry['last'][0]:,.0f}".replace(",", "\u2009")
    spoken = chart(page, "return_recent").locator(":scope > output")
    expect(spoken).to_contain_text(f"step {first}")
    expect(spoken).to_contain_text(f"{entry['mean'][0]:.4g}")
    plot.press("ArrowRight")
    second = f"{entry['last'][1]:,.0f}".replace(",", "\u2009")
    expect(spoken).to_contain_text(f"step {second}")


@pytest.mark.full
def test_the_menu_of_a_chart_gives_csv_png_and_the_command(reader: Visitor) -> None:
    page = reader.open("/runs/seed-1")
    section = chart(page, "return_recent")
    section.get_by_role("button", name="Menu of the chart return_recent").click()
    expect(section.get_by_text("hotloop runs plot")).to_be_visible()
    with page.expect_download() as csv:
        section.get_by_role("button", name="Save CSV").click()
    lines = Path(csv.value.path()).read_text().splitlines()
    assert lines[0].startswith("series,metric,x_first")
    assert len(lines) > 5
    with page.expect_download() as png:
        section.get_by_role("button", name="Save PNG").click()
    assert Path(png.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as points:
        section.get_by_role("link", name="All points as CSV").click()
    assert "return_recent" in Path(points.value.path()).read_text()


@pytest.mark.full
def test_why_did_it_change_ranks_metrics_and_leads_to_the_policy(reader: Visitor) -> None:
    page = reader.open("/runs/seed-1?why=1", sign_in=True)
    panel = page.get_by_role("region", name="Why did it change?")
    expect(panel.get_by_role("rowheader").first).to_be_visible()
    scores = [float(text.replace(" k", "e3")) for text in panel.locator("tbody td:last-child").all_inner_texts()]
    assert scores == sorted(scores, reverse=True)
    panel.locator("tbody button").first.click()
    expect(page.get_by_role("complementary", name="The policy at step").locator("canvas[role=img]")).to_be_visible()


def test_without_the_token_nothing_can_be_changed_and_the_page_offers_to_sign_in(reader: Visitor) -> None:
    from tests.server.live_server import TOKEN

    page = reader.open("/runs/seed-1")
    expect(page.get_by_role("tab", name="Curves")).to_be_visible()
    allow = page.get_by_role("button", name="Allow changes")
    expect(allow).to_be_visible()
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    allow.click()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Allow", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Allow", exact=True).click()
    expect(page.get_by_role("button", name="Delete")).to_be_visible()


@pytest.mark.full
def test_a_running_run_is_watched_live_and_stopped(visitor: Visitor, own_server: Server, tmp_path: Path) -> None:
    visitor.server = own_server
    # It trains without end: the page comes first.
    command = ["nice", "-n", "19", sys.executable, "-m", "hotloop", "train", "cartpole", "--name", "live"]
    options = ["--until", "100000", "--steps", "2000M", "--minutes", "5", "runner.num_threads=1"]
    environment = {**os.environ, "HOTLOOP_HOME": str(tmp_path)}
    run = subprocess.Popen([*command, *options], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page = visitor.open("/runs", sign_in=True)
        page.get_by_role("link", name="live").click()
        expect(page.get_by_role("heading", name="live")).to_be_visible()
        steps = page.locator("dt", has_text="Steps").locator("xpath=following-sibling::dd")
        before = _number(steps.inner_text())
        wait_until(page, lambda: _number(steps.inner_text()) > before, "steps grow without a reload")
        plot = chart(page, "return_recent").locator(".plot")
        last = plot.get_attribute("aria-label")
        wait_until(page, lambda: plot.get_attribute("aria-label") != last, "the curve grows without a reload")
        page.get_by_role("tab", name="Watch").click()
        expect(page.get_by_text("Live: the newest policy")).to_be_visible()
        expect(page.locator("canvas[role=img]")).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".run-title .status-stopped")).to_be_visible()
        assert run.wait(timeout=60) is not None
    finally:
        run.kill()
        run.wait()


def _number(text: str) -> int:
    return int(text.split(" of ")[0].replace("\u2009", ""))


@pytest.mark.full
def test_a_run_is_verified_to_the_bit_and_wears_a_badge(visitor: Visitor, own_server: Server, tmp_path: Path) -> None:
    train(tmp_path, "cartpole", "--name", "mine", "--steps", "40k")
    visitor.server = own_server
    page = visitor.open("/runs/mine", sign_in=True)
    page.get_by_role("button", name="Verify", exact=True).click()
    expect(page.locator(".run-title .badge.good")).to_contain_text("identical")


def test_tags_a_note_and_a_pin_stay_and_names_are_only_text(
    visitor: Visitor, own_server: Server, tmp_path: Path
) -> None:
    train(tmp_path, "cartpole", "--name", "mine", "--steps", "20k")
    visitor.server = own_server
    page = visitor.open("/runs/mine", sign_in=True)
    hostile = '<img src=x onerror="alert(1)">'
    page.get_by_role("button", name="Add tags or a note").click()
    page.get_by_label("Tags").fill(f"good, {hostile}")
    page.get_by_label("Note").fill("</script><script>alert(2)</script> \u202ejavascript:alert(3)")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".tag", has_text=hostile)).to_be_visible()
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    page.goto(f"{own_server.url}/runs")
    expect(page.locator(".tag", has_text="good")).to_be_visible()
    expect(page.get_by_title("pinned")).to_be_visible()
    assert page.locator("img").count() == 1, "only the icon of the page itself"


@pytest.mark.full
def test_a_deleted_run_leaves_the_list(visitor: Visitor, own_server: Server, tmp_path: Path) -> None:
    train(tmp_path, "cartpole", "--name", "mine", "--steps", "20k")
    visitor.server = own_server
    page = visitor.open("/runs/mine", sign_in=True)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    assert json.loads(own_server.request("GET", "/api/rl/runs").body)["total"] == 0


def test_a_run_that_does_not_exist_is_answered_with_the_servers_sentence(reader: Visitor) -> None:
    page = reader.open("/runs/seed-9")
    message: Any = page.get_by_role("alert")
    expect(message).to_contain_text("seed-9")
    expect(page.get_by_role("link", name="All runs")).to_be_visible()
