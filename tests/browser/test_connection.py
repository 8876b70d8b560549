"""Many tabs, a server that goes and comes back."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor, wait_until
from tests.server.live_server import Server, serving, train


@pytest.mark.full
def test_seven_tabs_share_one_stream_and_all_stay_live(visitor: Visitor, own_server: Server, tmp_path: Path) -> None:
    visitor.server = own_server
    profile = visitor.profile()
    pages = [visitor.open("/runs", profile=profile) for _ in range(7)]
    for page in pages:
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
        expect(page.get_by_title("Live", exact=True)).to_be_visible()
    assert own_server.get("/api/rl/status")["streams"] == 1
    train(tmp_path, "cartpole", "--name", "seen-by-all", "--steps", "20k")
    for page in pages:
        page.bring_to_front()
        expect(page.get_by_role("link", name="seen-by-all")).to_be_visible()
    pages[0].close()
    wait_until(pages[1], lambda: own_server.get("/api/rl/status")["streams"] == 1, "another tab takes over")
    for page in pages[1:]:
        expect(page.get_by_title("Live", exact=True)).to_be_visible()


@pytest.mark.full
def test_a_lost_server_is_announced_and_everything_is_live_again_when_it_is_back(
    visitor: Visitor, tmp_path: Path
) -> None:
    train(tmp_path, "cartpole", "--name", "before", "--steps", "20k")
    with serving(tmp_path) as first:
        visitor.server = first
        page = visitor.open("/runs")
        expect(page.get_by_title("Live", exact=True)).to_be_visible()
        expect(page.get_by_role("link", name="before")).to_be_visible()
    expect(page.get_by_text("The server does not answer since")).to_be_visible()
    expect(page.get_by_role("link", name="before")).to_be_visible()
    train(tmp_path, "cartpole", "--name", "meanwhile", "--steps", "20k")
    with serving(tmp_path, "--port", str(first.port)) as second:
        assert second.port == first.port, "another process took the port"
        expect(page.get_by_title("Live", exact=True)).to_be_visible()
        expect(page.get_by_text("The server does not answer since")).to_have_count(0)
        expect(page.get_by_role("link", name="meanwhile")).to_be_visible()
