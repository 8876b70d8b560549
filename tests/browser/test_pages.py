"""Every page in both themes and two widths: accessible, without sideways scrolling, and kept as a picture.

`HOTLOOP_PICTURES=FOLDER` visits each page in all four combinations and keeps the pictures there for a person to look
at; without it each page is visited once, in one of them.
"""

import os
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor, axe_violations

PAGES = {
    "runs": "/runs",
    "runs-folded": "/runs?fold=1&differ=1",
    "runs-empty": "/runs?where=seed%3D77",
    "run-curves": "/runs/seed-1?smooth=0.6",
    "run-why": "/runs/seed-1?why=1",
    "run-watch": "/runs/seed-1?tab=watch&t=30",
    "run-health": "/runs/seed-1?tab=health",
    "run-config": "/runs/seed-1?tab=config",
    "run-files": "/runs/seed-1?tab=files",
    "compare": "/compare?runs=RUNS",
    "alerts": "/alerts",
    "system": "/system",
}
LOOKS = list(product(("light", "dark"), (1280, 360)))
PICTURES = os.environ.get("HOTLOOP_PICTURES")
CASES = [(name, *look) for at, name in enumerate(PAGES) for look in (LOOKS if PICTURES else [LOOKS[at % len(LOOKS)]])]


@pytest.mark.parametrize(("name", "theme", "width"), CASES)
def test_a_page_is_accessible_and_fits(reader: Visitor, repository: Path, name: str, theme: str, width: int) -> None:
    assert reader.server is not None
    runs = ",".join(run["id"] for run in reader.server.get("/api/rl/runs")["runs"])
    path = PAGES[name].replace("RUNS", runs)
    page = reader.open(path, color_scheme=theme, viewport={"width": width, "height": 800})
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
    if name in ("run-curves", "compare"):
        expect(page.locator(".u-over").first).to_be_visible()
    if PICTURES:
        folder = Path(PICTURES)
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}-{theme}-{width}.png", full_page=True)
    assert axe_violations(page, repository) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
