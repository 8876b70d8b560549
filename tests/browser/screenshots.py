"""Make the pictures of docs/dashboard.md and README.md: `python -m tests.browser.screenshots [FOLDER]`.

Real runs, a real server and a real browser in a temporary home; PNGs of fewer than 150 kB, and a short animation.
"""

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.conftest import ARGUMENTS
from tests.browser.visitor import Visitor, chart
from tests.server.live_server import serving, train

FRAMES = 40


def save(png: bytes, path: Path) -> None:
    """Write a picture as small as it gets without a loss."""
    Image.open(io.BytesIO(png)).convert("RGB").save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def prepare(home: Path) -> None:
    """Train runs worth looking at."""
    for seed in range(1, 5):
        limits = ("--steps", "300k", "--until", "1000")
        train(home, "cartpole", "--seed", str(seed), "--name", f"cartpole-{seed}", *limits, "track.interval=1")
        slow = ("ppo.learning_rate=0.0008", "track.interval=1")
        train(home, "cartpole", "--seed", str(seed), "--name", f"slow-{seed}", *limits, *slow)
    train(home, "tag", "--name", "tag", "--steps", "400k", "track.interval=1")


def take(browser: Browser, home: Path, folder: Path) -> None:
    """Visit the pages and keep their pictures."""
    with serving(home) as server:
        visitor = Visitor(browser)
        visitor.server = server
        runs = {run["name"]: run["id"] for run in server.get("/api/rl/runs")["runs"]}

        def visit(path: str, theme: str = "light", height: int = 700) -> Page:
            page = visitor.open(path, sign_in=True, color_scheme=theme, viewport={"width": 1180, "height": height})
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            return page

        def keep(page: Page, name: str) -> None:
            expect(page.locator("[aria-busy]")).to_have_count(0)
            page.wait_for_timeout(500)
            save(page.screenshot(), folder / f"dashboard-{name}.png")
            page.close()

        page = visit("/runs", height=460)
        expect(page.get_by_role("link", name="tag")).to_be_visible()
        keep(page, "runs")
        page = visit("/runs/cartpole-1?at=60000")
        chart(page, "return_recent")
        expect(page.get_by_role("complementary", name="The policy at step").locator("canvas[role=img]")).to_be_visible()
        keep(page, "run")
        page = visit("/runs/cartpole-1?why=1", theme="dark")
        expect(page.get_by_role("rowheader").first).to_be_visible()
        keep(page, "why")
        page = visit(f"/compare?runs={','.join(runs[name] for name in sorted(runs) if name != 'tag')}", height=860)
        chart(page, "return_recent")
        keep(page, "compare")
        page = visit("/runs/tag?tab=watch&a=checkpoint:best&t=12", theme="dark")
        expect(page.get_by_role("list", name="Action probabilities")).to_be_visible()
        keep(page, "watch")
        page = visit("/runs/cartpole-1?tab=watch&a=step:0&b=checkpoint:best&seed=3&t=0", height=620)
        expect(page.locator("canvas[role=img]")).to_have_count(2)
        animate(page, folder / "dashboard-watch.gif")
        assert visitor.close() == []


def animate(page: Page, path: Path) -> None:
    """A few steps of two policies side by side."""
    pictures = []
    for _ in range(FRAMES):
        png = page.locator(".pictures").screenshot()
        picture = Image.open(io.BytesIO(png)).convert("RGB")
        pictures.append(picture.resize((picture.width * 3 // 4, picture.height * 3 // 4)).quantize(32))
        page.keyboard.press(".")
        page.keyboard.press(".")
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=80, loop=0, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Train, serve, and take all pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        home = Path(name)
        prepare(home)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        take(browser, home, folder)
        browser.close()


if __name__ == "__main__":
    main()
