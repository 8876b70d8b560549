"""A person with a browser: pages that note every error, and words for what a person does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Dialog, Page, expect

from tests.server.live_server import TOKEN, Server

# What a browser reports when a server is stopped under it, or answers with an error that the page shows.
_EXPECTED = (
    "net::ERR_CONNECTION_REFUSED",
    "net::ERR_CONNECTION_RESET",
    "net::ERR_EMPTY_RESPONSE",
    "net::ERR_INCOMPLETE_CHUNKED_ENCODING",
    "the server responded with a status of 4",
)


class Visitor:
    """A browser profile. Pages belong to `server` unless an address is given."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.server: Server | None = None
        self.problems: list[str] = []
        self._contexts: list[Any] = []

    def profile(self, **options: Any) -> Any:
        """A fresh profile, as on another computer."""
        context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        # A page that loads slowly on a busy machine is not a bug.
        context.set_default_timeout(60_000)
        self._contexts.append(context)
        return context

    def open(self, path: str, *, sign_in: bool = False, profile: Any = None, **options: Any) -> Page:
        """Go to an address of the server."""
        assert self.server is not None
        context = profile or self.profile(**options)
        if sign_in:
            body = json.dumps({"token": TOKEN})
            headers = {"Content-Type": "application/json"}
            reply = context.request.post(f"{self.server.url}/api/rl/session", data=body, headers=headers)
            assert reply.ok, reply.text()
        page: Page = context.new_page()
        self.watch(page)
        page.goto(self.server.url + path)
        return page

    def watch(self, page: Page) -> None:
        """Note errors, dialogs, and requests to anywhere else."""
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._refuse)
        page.on("request", lambda request: self._check_address(request.url))
        page.on("console", lambda message: self._check_message(message.type, message.text))

    def _refuse(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _check_address(self, url: str) -> None:
        host = urlsplit(url).hostname
        if host not in (None, "127.0.0.1") and not url.startswith(("data:", "blob:")):
            self.problems.append(f"request to {url}")

    def _check_message(self, kind: str, text: str) -> None:
        if kind == "error" and not any(part in text for part in _EXPECTED):
            self.problems.append(f"console: {text}")

    def close(self) -> list[str]:
        """Close every page and return what went wrong."""
        for context in self._contexts:
            context.close()
        return self.problems


def wait_until(page: Page, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Look again and again, a few times a second, as a person would."""
    for _ in range(int(seconds * 5)):
        if condition():
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"did not happen: {what}")


def chart(page: Page, metric: str) -> Any:
    """The chart of a metric."""
    found = page.get_by_role("region", name=metric, exact=True)
    expect(found.locator(".u-over")).to_be_visible()
    return found


def axe_violations(page: Page, repository: Path) -> list[str]:
    """Return the violations of WCAG 2.2 AA that axe-core finds."""
    page.evaluate((repository / "dashboard/node_modules/axe-core/axe.min.js").read_text())
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    result = page.evaluate("tags => axe.run(document, {runOnly: tags})", tags)
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in result["violations"]
        for node in one["nodes"]
    ]
