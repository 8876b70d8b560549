"""A real Chromium, driven as a person would use it; every page must load from the server only and log no error."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.visitor import Visitor
from tests.server.conftest import served, trained  # noqa: F401
from tests.server.live_server import Server, serving

# A page that is slow on a busy machine is not a bug.
expect.set_options(timeout=60_000)
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-quic", "--no-first-run",
)  # fmt: skip


# Closed before any test outside of this folder runs: Playwright's loop would be in the way of theirs.
@pytest.fixture(scope="package")
def browser(repository: Path) -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (make system-deps)")
    if not (repository / "python/hotloop/server/static/index.html").is_file():
        pytest.skip("the dashboard is not built (make dashboard)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """Somebody with a browser of their own; in the end, nothing must have gone wrong unnoticed."""
    visitor = Visitor(browser)
    yield visitor
    problems = visitor.close()
    assert problems == []


@pytest.fixture
def reader(visitor: Visitor, served: Server) -> Visitor:  # noqa: F811
    """A visitor of the server that tests share: reads, and changes nothing."""
    visitor.server = served
    return visitor


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server over an empty home."""
    with serving(tmp_path) as server:
        yield server
