"""Speed of the server on a large store: time of answers and pages, memory, CPU with live runs, cost to training."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from hotloop.bench import serve_beside, serve_pages, serve_peers
from hotloop.bench.serve_row import ServeRow
from hotloop.bench.serve_store import BASE_STEP, METRICS, copy_runs, fill, store_url, write_records
from hotloop.tracking.database import Database

RUNS: Final = 1000
MANY_RUNS: Final = 10_000
POINTS: Final = 100_000
LONG: Final = 1_000_000
STREAMS: Final = 20
LIVE_RUNS: Final = 50
# Charts that a first screen shows.
_SCREEN: Final = 8

Progress = Callable[[str, float], object]


class Client:
    """Requests to the server, timed."""

    def __init__(self, port: int) -> None:
        self._port = port

    def seconds(self, path: str, accept: int = 200) -> float:
        """The time from a new connection to the whole answer."""
        begun = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            reply.read()
            if reply.status != accept:
                raise RuntimeError(f"{path} answered {reply.status}")
        finally:
            connection.close()
        return time.perf_counter() - begun


@contextlib.contextmanager
def serving(home: Path) -> Iterator[tuple[int, psutil.Process, float]]:
    """A server over a home: its port, its process, and the seconds that its start took."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", "serve", "--port", "0", "--json"],
        env={**os.environ, "HOTLOOP_HOME": str(home), "HOTLOOP_STORE": ""},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        yield facts["port"], psutil.Process(process.pid), time.perf_counter() - begun
    finally:
        process.kill()
        process.communicate()


def measure(
    *, quick: bool = False, pages: bool = True, peers: bool = True, progress: Progress = lambda what, share: None
) -> list[ServeRow]:
    """All figures. A quick measurement has a tenth of the points; `pages` needs a browser."""
    size = 10 if quick else 1
    points, long = POINTS // size, LONG // size
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as name, contextlib.ExitStack() as stack:
        home = Path(name)
        browser = stack.enter_context(serve_pages.open_browser()) if pages else None
        progress("filling a store", 0.0)
        fill(home, RUNS, points, long)
        rows = []
        with serving(home) as (port, process, start):
            client, url = Client(port), f"http://127.0.0.1:{port}"
            progress("answers", 0.2)
            rows.append(ServeRow("start to first answer possible", start, "s", None))
            rows.append(ServeRow("memory at rest", process.memory_info().rss / 1e6, "MB", 90.0))
            rows += _answers(client, points, long)
            rows.append(ServeRow(f"memory with {RUNS} runs cached", process.memory_info().rss / 1e6, "MB", 130.0))
            progress("at rest", 0.3)
            rows.append(ServeRow("CPU at rest, no client", _cpu(process, 2.0 if quick else 10.0), "% of a core", 0.3))
            if browser is not None:
                progress("pages", 0.35)
                rows += serve_pages.measure_pages(browser, url, points=points, repeats=1 if quick else 5)
            progress("live", 0.5)
            rows += _live(home, process, port, seconds=4.0 if quick else 20.0)
            if browser is not None:
                rows.append(serve_pages.measure_live(browser, url, home, seconds=8.0 if quick else 30.0))
                progress("a day of records", 0.6)
                rows += serve_pages.measure_heap(browser, url, home, process, share=0.125 if quick else 1.0)
            progress("training beside it", 0.7)
            rounds, seconds = (1, 2.0) if quick else (7, 6.0)
            follow = partial(serve_beside.follow_stream, url)
            lost = serve_beside.lost_speed(home, "followed", follow, rounds=rounds, seconds=seconds)
            rows.append(ServeRow("speed that training loses with a hidden page", lost, "%", 1.0))
            if browser is not None:
                show = partial(serve_pages.show_run, browser, url)
                lost = serve_beside.lost_speed(home, "shown", show, rounds=rounds, seconds=seconds)
                rows.append(ServeRow("speed that training loses with a visible page", lost, "%", 3.0))
        progress("many runs", 0.85)
        copy_runs(home, MANY_RUNS - RUNS - LIVE_RUNS, "many")
        with serving(home) as (port, _, _):
            client = Client(port)
            client.seconds("/api/rl/runs?limit=100")
            times = [client.seconds("/api/rl/runs?limit=100") for _ in range(20)]
            rows.append(ServeRow(f"list of {MANY_RUNS} runs, p95", 1000 * _p95(times), "ms", 120.0))
            if browser is not None:
                rows.append(serve_pages.measure_scrolling(browser, f"http://127.0.0.1:{port}", MANY_RUNS))
        if peers and browser is not None:
            progress("peers", 0.9)
            rows += serve_peers.measure_peers(browser, home / "peers", runs=100 // size)
    return rows


def _p95(times: list[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(0.95 * len(times)))]


def _answers(client: Client, points: int, long: int) -> list[ServeRow]:
    cold = client.seconds("/api/rl/runs?limit=100")
    warm = [client.seconds("/api/rl/runs?limit=100") for _ in range(20)]
    charts = "".join(f"&metric=metric.{i}" for i in range(_SCREEN))
    screen = client.seconds("/api/rl/runs/real/metrics?brief=true")
    screen += client.seconds(f"/api/rl/series?run=real{charts}")
    first = client.seconds("/api/rl/series?run=real&metric=long")
    again = [client.seconds("/api/rl/series?run=real&metric=long") for _ in range(10)]
    low = long // 2
    window = f"from={low}&to={low + long // 100}"
    zoom = client.seconds(f"/api/rl/series?run=real&metric=long&{window}")
    replays = "/api/rl/runs/real/replays"
    return [
        ServeRow(f"list of {RUNS} runs, first", 1000 * cold, "ms", 700.0),
        ServeRow(f"list of {RUNS} runs, p95", 1000 * _p95(warm), "ms", 40.0),
        ServeRow(f"first screen: {_SCREEN} of {METRICS} metrics x {points} points", 1000 * screen, "ms", 800.0),
        ServeRow(f"{long} points of a metric, first", 1000 * first, "ms", 1000.0),
        ServeRow(f"{long} points of a metric, again", 1000 * _p95(again), "ms", 30.0),
        ServeRow("zoom to 1 %", 1000 * zoom, "ms", 60.0),
        ServeRow("list of replays", 1000 * client.seconds(replays), "ms", None),
    ]


def _cpu(process: psutil.Process, seconds: float) -> float:
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    return 100 * (after.user + after.system - before.user - before.system) / seconds


def _live(home: Path, process: psutil.Process, port: int, seconds: float) -> list[ServeRow]:
    """Runs that write a record each second, and streams that watch them: from the store's commit to the client."""
    numbers = copy_runs(home, LIVE_RUNS, "live")
    stop = threading.Event()
    sent: dict[int, float] = {}
    late: list[float] = []
    threads = [
        threading.Thread(target=_listen, args=(port, f"live-{i % LIVE_RUNS}", sent, late, stop), daemon=True)
        for i in range(STREAMS)
    ]
    for thread in threads:
        thread.start()
    with Database(store_url(home)) as database:
        write_records(database, numbers, 0)
        time.sleep(1.0)
        before, begun = process.cpu_times(), time.monotonic()
        memory = process.memory_info().rss
        step = 1
        while time.monotonic() - begun < seconds:
            sent[step] = time.time()
            write_records(database, numbers, step)
            step += 1
            time.sleep(1.0)
        after, took = process.cpu_times(), time.monotonic() - begun
    stop.set()
    share = 100 * (after.user + after.system - before.user - before.system) / took
    rows = [ServeRow(f"CPU with {LIVE_RUNS} live runs and {STREAMS} streams", share, "% of a core", 10.0)]
    if late:
        # The journal is written every 0.5 s and the store every 1 s before that.
        rows.append(ServeRow("store to client, p95", _p95(late), "s", 0.5))
    grown = (process.memory_info().rss - memory) / 1e6
    return [*rows, ServeRow("memory grown meanwhile", grown, "MB", None)]


def _listen(port: int, run: str, sent: dict[int, float], late: list[float], stop: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", f"/api/rl/events?topics=run:{run}&metrics=metric.0")
        reply = connection.getresponse()
        while not stop.is_set():
            line = reply.readline()
            if line.startswith(b"data: ") and b'"metric.0"' in line:
                points = json.loads(line[6:])["points"]["metric.0"]
                at = sent.get(points[-1][0] - BASE_STEP)
                if at is not None:
                    late.append(time.time() - at)
    connection.close()
