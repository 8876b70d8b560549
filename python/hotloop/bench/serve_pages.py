"""The dashboard's pages in a real Chromium: time to what a person waits for, memory, and the cost to training."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from hotloop.bench.serve_beside import training, wait_for_run
from hotloop.bench.serve_row import ServeRow
from hotloop.bench.serve_store import METRICS, WIDE, copy_runs, store_url, write_records
from hotloop.tracking.database import Database

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-quic", "--no-first-run", "--enable-precise-memory-info"),
)
# The longest of the marks that a page sets when a part of it has been drawn; none yet is null.
_DRAWN: Final = """prefix => {
    const marks = performance.getEntriesByType("mark").filter((mark) => mark.name.startsWith(prefix));
    return marks.length ? [marks.length, Math.max(...marks.map((mark) => mark.startTime))] : null;
}"""
# Notes when each chart shows a new last point.
_NOTE_CHANGES: Final = """() => {
    window.changes = [];
    new MutationObserver((list) => {
        for (const entry of list) window.changes.push([Number(entry.target.dataset.last), Date.now() / 1000]);
    }).observe(document.body, { subtree: true, attributeFilter: ["data-last"] });
}"""
_SCROLL: Final = """() => new Promise((done) => {
    const box = document.querySelector(".rows");
    const times = [];
    const frame = (now) => {
        times.push(now);
        box.scrollTop += 90;
        if (now - times[0] < 2000) requestAnimationFrame(frame);
        else done((now - times[0]) / (times.length - 1));
    };
    requestAnimationFrame(frame);
})"""
# Of a day's work, in seconds, at a record a second.
_HOURS: Final = 8 * 3600


def missing() -> str | None:
    """Why pages cannot be measured here, or `None`."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "Pages are not measured: pip install playwright"
    if not any(shutil.which(name) for name in _NAMES):
        return "Pages are not measured: Chromium is not installed"
    return None


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """A headless Chromium of the system."""
    from playwright.sync_api import sync_playwright

    path = next(found for name in _NAMES if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield browser
        browser.close()


def measure_pages(browser: Browser, url: str, *, points: int, repeats: int) -> list[ServeRow]:
    """Time from navigation to what a page is opened for."""
    cold, warm = [], []
    for _ in range(repeats):
        with _page(browser) as page:
            page.goto(f"{url}/runs")
            cold.append(_drawn(page, "hotloop:rows"))
            page.reload()
            warm.append(_drawn(page, "hotloop:rows"))
    charts = [_first_screen(browser, f"{url}/runs/real") for _ in range(repeats)]
    wide = [_first_screen(browser, f"{url}/runs/wide-0") for _ in range(repeats)]
    return [
        ServeRow("page Runs: rows painted, cold", statistics.median(cold), "ms", 700.0),
        ServeRow("page Runs: rows painted, warm", statistics.median(warm), "ms", 250.0),
        ServeRow(f"page of a run, {METRICS} metrics x {points} points", statistics.median(charts), "ms", 800.0),
        ServeRow(f"page of a run, {WIDE} metrics", statistics.median(wide), "ms", 1000.0),
        ServeRow("replay: click to first frame", _replay(browser, url, repeats), "ms", 250.0),
    ]


def measure_scrolling(browser: Browser, url: str, runs: int) -> ServeRow:
    """Time per frame while a long list scrolls."""
    with _page(browser) as page:
        page.goto(f"{url}/runs")
        _drawn(page, "hotloop:rows")
        return ServeRow(f"frame while {runs} runs scroll", page.evaluate(_SCROLL), "ms", 20.0)


def measure_live(browser: Browser, url: str, home: Path, seconds: float) -> ServeRow:
    """From the record of a real run to its pixels: journal, store, poller, stream, chart."""
    with training(home, "watched", seconds) as process:
        wait_for_run(url, "watched")
        with _page(browser) as page:
            page.goto(f"{url}/runs/watched")
            _drawn(page, "hotloop:chart:")
            page.evaluate(_NOTE_CHANGES)
            process.wait()
            # The last records are still on their way.
            page.wait_for_timeout(3000)
            changes: list[tuple[float, float]] = page.evaluate("window.changes")
    with Database(store_url(home)) as database:
        query = "SELECT m.step, MIN(m.time) FROM metrics m JOIN runs r ON r.number = m.run WHERE r.name = ? GROUP BY 1"
        recorded = dict(database.execute(query, ("watched",)).fetchall())
    # A chart that skips records shows the newest of several: the oldest of them has waited longest.
    steps = sorted(recorded)
    shown = sorted((at, step) for step, at in changes)
    late, last = [], shown[0][1]
    for at, step in shown[1:]:
        late += [at - recorded[each] for each in steps if last < each <= step]
        last = max(last, step)
    return ServeRow("record of a run to pixel, p95", sorted(late)[int(0.95 * len(late))], "s", 2.0)


@contextlib.contextmanager
def show_run(browser: Browser, url: str, name: str) -> Iterator[None]:
    """Keep the page of a run open."""
    wait_for_run(url, name)
    with _page(browser) as page:
        page.goto(f"{url}/runs/{name}")
        yield


def measure_heap(browser: Browser, url: str, home: Path, server: Any, *, share: float) -> list[ServeRow]:
    """Memory of the page and the server after as many records as eight hours bring."""
    (number,) = copy_runs(home, 1, "long-live")
    with Database(store_url(home)) as database:
        write_records(database, [number], 0)
        with _page(browser) as page:
            page.goto(f"{url}/runs/long-live-0")
            _drawn(page, "hotloop:chart:")
            before, burst = server.memory_info().rss, 180
            for step in range(1, int(_HOURS * share), burst):
                write_records(database, [number], step, burst)
                time.sleep(0.25)
            client = page.context.new_cdp_session(page)
            client.send("HeapProfiler.collectGarbage")
            metrics = {entry["name"]: entry["value"] for entry in client.send("Performance.getMetrics")["metrics"]}
            if not metrics:
                metrics = {"JSHeapUsedSize": page.evaluate("performance.memory.usedJSHeapSize")}
    grown = (server.memory_info().rss - before) / 1e6
    hours = 8 * share
    return [
        ServeRow(f"page's heap after {hours:g} h of records", metrics["JSHeapUsedSize"] / 1e6, "MB", 150.0),
        ServeRow(f"server's memory grown over {hours:g} h of records", grown, "MB", 20.0),
    ]


@contextlib.contextmanager
def _page(browser: Browser) -> Iterator[Page]:
    """A page in a profile of its own, with nothing cached."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        yield context.new_page()
    finally:
        context.close()


def _drawn(page: Page, prefix: str) -> float:
    """Milliseconds from navigation to the last of the marks that appear together."""
    # Not `wait_for_function`, which evaluates text: the page's security policy forbids it.
    until, before, found = time.monotonic() + 120, None, None
    while found is None or found != before:
        if time.monotonic() > until:
            raise RuntimeError(f"{page.url} did not draw {prefix} within 120 s")
        page.wait_for_timeout(20 if found is None else 300)
        before, found = found, page.evaluate(_DRAWN, prefix)
    return float(found[1])


def _first_screen(browser: Browser, url: str) -> float:
    with _page(browser) as page:
        page.goto(url)
        return _drawn(page, "hotloop:chart:")


def _replay(browser: Browser, url: str, repeats: int) -> float:
    times = []
    with _page(browser) as page:
        for _ in range(repeats):
            page.goto(f"{url}/runs/real")
            tab = page.get_by_role("tab", name="Watch")
            tab.wait_for()
            clicked = page.evaluate("performance.now()")
            tab.click()
            times.append(_drawn(page, "hotloop:frame") - clicked)
    return float(statistics.median(times))
