"""Comparing runs: groups of seeds, links, colours."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.visitor import Visitor, chart


def ids(visitor: Visitor) -> dict[str, str]:
    assert visitor.server is not None
    return {run["name"]: run["id"] for run in visitor.server.get("/api/rl/runs")["runs"]}


def colours(page: Page) -> dict[str, str]:
    entries = page.locator(".legend li").all()
    return {
        entry.get_by_role("link").inner_text(): entry.locator("line").get_attribute("stroke") or "" for entry in entries
    }


def test_selected_runs_are_compared_and_the_link_shows_the_same_elsewhere(reader: Visitor) -> None:
    page = reader.open("/runs?sort=name")
    for name in ("other", "seed-1", "seed-2"):
        page.get_by_label(f"Select {name}").click()
    expect(page.get_by_text("3 selected")).to_be_visible()
    page.get_by_role("button", name="Compare").click()
    chart(page, "return_recent")
    page.get_by_label("Seeds as one curve").uncheck()
    page.get_by_label("Add a metric").select_option("entropy")
    chart(page, "entropy")
    expect(page.get_by_role("cell", name="2", exact=True).first).to_be_visible()
    elsewhere = reader.open(page.url.removeprefix(reader.server.url if reader.server else ""))
    label = chart(page, "entropy").locator(".plot").get_attribute("aria-label")
    expect(chart(elsewhere, "entropy").locator(".plot")).to_have_attribute("aria-label", label or "")
    assert colours(elsewhere) == colours(page)


@pytest.mark.full
def test_a_group_of_seeds_is_one_curve_with_its_number(reader: Visitor) -> None:
    found = ids(reader)
    page = reader.open(f"/compare?runs={found['seed-1']},{found['seed-2']},{found['other']}")
    label = chart(page, "return_recent").locator(".plot").get_attribute("aria-label") or ""
    assert "n = 2" in label
    expect(page.get_by_role("rowheader", name="2 seeds")).to_be_visible()
    expect(page.get_by_role("rowheader", name="ppo.epochs", exact=True)).to_be_visible()


@pytest.mark.full
def test_removing_a_run_leaves_the_colours_of_the_others(reader: Visitor) -> None:
    found = ids(reader)
    page = reader.open(f"/compare?group=none&runs={found['other']},{found['seed-1']},{found['seed-2']}")
    chart(page, "return_recent")
    before = colours(page)
    assert len(set(before.values())) == 3
    page.get_by_role("button", name="Remove seed-1").click()
    expect(page.locator(".legend li")).to_have_count(2)
    assert colours(page) == {name: colour for name, colour in before.items() if name != "seed-1"}


@pytest.mark.full
def test_two_runs_show_the_first_record_in_which_they_differ(reader: Visitor) -> None:
    found = ids(reader)
    page = reader.open(f"/compare?runs={found['seed-1']},{found['other']}")
    expect(page.get_by_role("heading", name="First difference")).to_be_visible()
    expect(page.get_by_text("All records are equal before step")).to_be_visible()


@pytest.mark.full
def test_nothing_selected_says_how_to_select(reader: Visitor) -> None:
    page = reader.open("/compare")
    expect(page.get_by_role("main").get_by_role("link", name="Runs")).to_be_visible()
