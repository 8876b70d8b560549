"""The list of runs."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.visitor import Visitor
from tests.server.live_server import Server, train


def names(page: Page) -> list[str]:
    return page.locator("tbody th a").all_inner_texts()


def test_a_first_visitor_learns_how_to_make_a_run_and_sees_it_appear(
    visitor: Visitor, own_server: Server, tmp_path: Path
) -> None:
    visitor.server = own_server
    page = visitor.open("/")
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    expect(page.get_by_role("button", name="Copy the command hotloop train cartpole")).to_be_visible()
    train(tmp_path, "cartpole", "--name", "my-first", "--steps", "20k")
    expect(page.get_by_role("link", name="my-first")).to_be_visible()


def test_filters_are_those_of_the_command_line_and_part_of_the_address(reader: Visitor) -> None:
    page = reader.open("/runs")
    box = page.get_by_label("Filter runs")
    expect(page.get_by_text("3 runs")).to_be_visible()
    box.fill("ppo.epochs=2")
    box.press("Enter")
    expect(page.get_by_text("1 run", exact=True)).to_be_visible()
    assert names(page) == ["other"]
    assert "where=ppo.epochs" in page.url
    page.go_back()
    expect(page.get_by_text("3 runs")).to_be_visible()
    page.goto(f"{page.url}?where=seed%3D2&sort=name")
    expect(page.get_by_text("1 run", exact=True)).to_be_visible()
    expect(box).to_have_value("seed=2")


@pytest.mark.full
def test_a_mistyped_key_is_answered_with_the_nearest_one(reader: Visitor) -> None:
    page = reader.open("/runs?where=ppo.epoch%3D2")
    expect(page.get_by_role("alert").first).to_contain_text("ppo.epochs")


@pytest.mark.full
def test_a_filter_without_hits_names_the_condition_to_drop(reader: Visitor) -> None:
    page = reader.open("/runs?where=env%3Dcartpole&where=seed%3D77")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    expect(page.get_by_text("seed=77 excludes most: without it 3 fit")).to_be_visible()
    page.get_by_role("button", name="Drop it").click()
    expect(page.get_by_text("3 runs")).to_be_visible()


@pytest.mark.full
def test_a_click_on_a_column_sorts_by_it(reader: Visitor) -> None:
    page = reader.open("/runs")
    page.get_by_role("button", name="Name", exact=True).click()
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "descending")
    expect(page.locator("tbody th a").first).to_have_text("seed-2")
    page.get_by_role("button", name="Name", exact=True).click()
    expect(page.locator("tbody th a").first).to_have_text("other")


@pytest.mark.full
def test_seeds_fold_into_one_row(reader: Visitor) -> None:
    page = reader.open("/runs")
    page.get_by_label("Fold seeds").check()
    expect(page.get_by_text("n = 2")).to_be_visible()
    expect(page.get_by_role("link", name="seed-1")).to_have_count(0)
    page.locator("button.fold").click()
    expect(page.get_by_role("link", name="seed-1")).to_be_visible()


@pytest.mark.full
def test_only_the_settings_that_differ_become_columns(reader: Visitor) -> None:
    page = reader.open("/runs?differ=1")
    expect(page.get_by_role("columnheader", name="ppo.epochs")).to_be_visible()
    expect(page.get_by_role("columnheader", name="ppo.clip", exact=True)).to_have_count(0)
    expect(page.get_by_role("row", name="Select other")).to_contain_text("2")


def test_the_keyboard_is_enough(reader: Visitor) -> None:
    page = reader.open("/runs?sort=name")
    expect(page.get_by_role("link", name="seed-1")).to_be_visible()
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    expect(page.locator(".legend li")).to_have_count(2)
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("link", name="seed-1")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter runs")).to_be_focused()
    page.keyboard.press("Escape")
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("tab", name="Curves")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard")).to_have_count(0)


@pytest.mark.full
def test_the_theme_follows_the_system_until_one_is_chosen_and_then_stays(reader: Visitor) -> None:
    profile = reader.profile(color_scheme="dark")
    page = reader.open("/runs", profile=profile)
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(15, 18, 22)"
    page.emulate_media(color_scheme="light")
    assert page.evaluate(background) == "rgb(245, 246, 247)"
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.keyboard.press("t")
    page.keyboard.press("t")
    assert page.evaluate(background) == "rgb(15, 18, 22)"
    page.reload()
    assert page.evaluate(background) == "rgb(15, 18, 22)"


@pytest.mark.full
def test_ten_thousand_rows_are_never_all_in_the_page(reader: Visitor) -> None:
    page = reader.open("/runs")
    expect(page.get_by_role("link", name="seed-1")).to_be_visible()
    page.route("**/api/rl/runs?*", lambda route: _many_rows(route))
    page.get_by_label("Filter runs").fill("many")
    page.keyboard.press("Enter")
    expect(page.get_by_text("500 runs")).to_be_visible()
    assert page.locator("tbody tr").count() < 120
    page.locator(".rows").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    expect(page.get_by_role("link", name="run-499")).to_be_visible()
    assert page.locator("tbody tr").count() < 120


def _many_rows(route) -> None:  # type: ignore[no-untyped-def]
    answer = route.fetch(url=route.request.url.replace("q=many", "q="))
    body = answer.json()
    row = body["runs"][0]
    body["runs"] = [{**row, "id": f"id{n}", "name": f"run-{n}"} for n in range(500)]
    route.fulfill(response=answer, json={**body, "total": 500, "cursor": None})
