"""Replays: play, pause, scrub, side by side."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.visitor import Visitor, wait_until
from tests.server.live_server import train


def shown_step(page: Page) -> int:
    return int(page.get_by_role("slider", name="Step of the episode").get_attribute("aria-valuenow") or -1)


def picture(page: Page, index: int = 0) -> str:
    """Return the canvas as data."""
    found: str = page.locator("canvas[role=img]").nth(index).evaluate("canvas => canvas.toDataURL()")
    return found


def test_a_kept_replay_plays_pauses_steps_and_is_scrubbed(reader: Visitor) -> None:
    page = reader.open("/runs/seed-1?tab=watch")
    expect(page.get_by_text("exact", exact=True)).to_be_visible()
    wait_until(page, lambda: shown_step(page) > 3, "the replay plays by itself")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Play", exact=True).first).to_be_visible()
    page.wait_for_url("**t=*")
    at = shown_step(page)
    before = picture(page)
    page.keyboard.press(".")
    assert shown_step(page) == at + 1
    assert picture(page) != before
    page.keyboard.press(",")
    assert shown_step(page) == at
    assert picture(page) == before, "the same step is the same picture"
    strip = page.get_by_role("slider", name="Step of the episode")
    place = strip.bounding_box()
    assert place is not None
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + 10)
    last = int(strip.get_attribute("aria-valuemax") or 0)
    assert abs(shown_step(page) - last / 2) <= max(2, last / 50)
    strip.press("End")
    assert shown_step(page) == last


@pytest.mark.full
def test_a_link_to_a_paused_replay_shows_the_same_picture_elsewhere(reader: Visitor) -> None:
    page = reader.open("/runs/seed-1?tab=watch&t=42")
    expect(page.locator("canvas[role=img]")).to_be_visible()
    assert shown_step(page) == 42
    other = reader.open(page.url.removeprefix(reader.server.url if reader.server else ""))
    expect(other.locator("canvas[role=img]")).to_be_visible()
    assert picture(other) == picture(page)


@pytest.mark.full
def test_two_policies_play_the_same_seed_in_lock_step(reader: Visitor) -> None:
    page = reader.open("/runs/seed-1?tab=watch&a=step:0&b=checkpoint:best&seed=3", sign_in=True)
    expect(page.locator("canvas[role=img]")).to_have_count(2)
    page.keyboard.press(" ")
    page.get_by_role("slider", name="Step of the episode").press("Home")
    assert picture(page, 0) == picture(page, 1), "one seed, one beginning"
    page.get_by_role("slider", name="Step of the episode").press("End")
    expect(page.locator("figcaption").nth(1)).to_contain_text("return")


@pytest.mark.full
def test_a_policy_of_another_seed_is_played_on_demand(reader: Visitor) -> None:
    page = reader.open("/runs/seed-1?tab=watch", sign_in=True)
    page.get_by_label("Seed", exact=True).fill("7")
    page.get_by_role("button", name="Play", exact=True).last.click()
    page.wait_for_url("**seed=7*")
    expect(page.get_by_role("list", name="Action probabilities")).to_be_visible()
    expect(page.locator(".probabilities li.chosen")).to_have_count(1)
    page.get_by_label("Env options").fill("max_steps=7")
    page.get_by_role("button", name="Play", exact=True).last.click()
    expect(page.get_by_role("slider", name="Step of the episode")).to_have_attribute("aria-valuemax", "7")


@pytest.fixture(scope="module")
def tag(trained) -> str:  # type: ignore[no-untyped-def]
    train(trained, "tag", "--name", "tag", "--steps", "20k")
    return "tag"


@pytest.mark.full
def test_a_seat_of_several_is_followed(reader: Visitor, tag: str) -> None:
    page = reader.open(f"/runs/{tag}?tab=watch&a=checkpoint:best", sign_in=True)
    expect(page.locator("canvas[role=img]")).to_be_visible()
    page.keyboard.press(" ")
    whole = picture(page)
    page.get_by_label("Follow").select_option("1")
    expect(page.get_by_text("Action of seat 1")).to_be_visible()
    wait_until(page, lambda: picture(page) != whole, "the picture follows the seat")
