"""Speed of the server on a large store: time of answers, memory, CPU with live runs, beside TensorBoard and MLflow."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from hotloop.training import train

if TYPE_CHECKING:
    from hotloop.tracking.database import Database

RUNS: Final = 1000
MANY_RUNS: Final = 10_000
METRICS: Final = 40
POINTS: Final = 100_000
LONG: Final = 1_000_000
STREAMS: Final = 20
LIVE_RUNS: Final = 50
# Charts that a first screen shows.
_SCREEN: Final = 8
_METRIC: Final = "long"

Progress = Callable[[str, float], object]


@dataclass(frozen=True)
class ServeRow:
    """A figure with its goal."""

    name: str
    value: float
    unit: str
    goal: float | None

    def as_json(self) -> dict[str, Any]:
        """The row for `--json`."""
        met = None if self.goal is None else self.value <= self.goal
        return {"name": self.name, "value": self.value, "unit": self.unit, "goal": self.goal, "met": met}


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
def _server(home: Path) -> Iterator[tuple[Client, psutil.Process, float, int]]:
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
        yield Client(facts["port"]), psutil.Process(process.pid), time.perf_counter() - begun, facts["port"]
    finally:
        process.kill()
        process.communicate()


def measure(
    *, quick: bool = False, peers: bool = True, progress: Progress = lambda what, share: None
) -> list[ServeRow]:
    """All figures. A quick measurement has a tenth of the points."""
    size = 10 if quick else 1
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as name:
        home = Path(name)
        progress("filling a store", 0.0)
        run = _fill(home, POINTS // size, LONG // size)
        rows = []
        with _server(home) as (client, process, start, port):
            progress("answers", 0.3)
            rows.append(ServeRow("start to first answer possible", start, "s", None))
            rows.append(ServeRow("memory at rest", process.memory_info().rss / 1e6, "MB", 90.0))
            rows += _answers(client, run, POINTS // size, LONG // size)
            rows.append(ServeRow(f"memory with {RUNS} runs cached", process.memory_info().rss / 1e6, "MB", 130.0))
            progress("at rest", 0.5)
            rows.append(ServeRow("CPU at rest, no client", _cpu(process, 2.0 if quick else 10.0), "% of a core", 0.3))
            progress("live", 0.6)
            rows += _live(home, process, port, seconds=4.0 if quick else 20.0)
            progress("training beside it", 0.75)
            rows.append(_training(home, port, rounds=1 if quick else 5, seconds=2.0 if quick else 6.0))
        progress("many runs", 0.8)
        _copy_runs(home, MANY_RUNS - RUNS - LIVE_RUNS, "many")
        with _server(home) as (client, _, _, _):
            client.seconds("/api/rl/runs?limit=100")
            times = [client.seconds("/api/rl/runs?limit=100") for _ in range(20)]
            rows.append(ServeRow(f"list of {MANY_RUNS} runs, p95", 1000 * _p95(times), "ms", 120.0))
        if peers:
            progress("peers", 0.9)
            rows += _peers(home, RUNS // (10 * size))
    return rows


def _p95(times: list[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(0.95 * len(times)))]


def _answers(client: Client, run: str, points: int, long: int) -> list[ServeRow]:
    cold = client.seconds("/api/rl/runs?limit=100")
    warm = [client.seconds("/api/rl/runs?limit=100") for _ in range(20)]
    charts = "".join(f"&metric=metric.{i}" for i in range(_SCREEN))
    screen = client.seconds(f"/api/rl/runs/{run}/metrics?brief=true")
    screen += client.seconds(f"/api/rl/series?run={run}{charts}")
    first = client.seconds(f"/api/rl/series?run={run}&metric={_METRIC}")
    again = [client.seconds(f"/api/rl/series?run={run}&metric={_METRIC}") for _ in range(10)]
    low = long // 2
    window = f"from={low}&to={low + long // 100}"
    zoom = client.seconds(f"/api/rl/series?run={run}&metric={_METRIC}&{window}")
    replays = f"/api/rl/runs/{run}/replays"
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
    from hotloop.tracking.database import Database

    url = _url(home)
    numbers = _copy_runs(home, LIVE_RUNS, "live")
    stop = threading.Event()
    sent: dict[int, float] = {}
    late: list[float] = []
    threads = [
        threading.Thread(target=_listen, args=(port, f"live-{i % LIVE_RUNS}", sent, late, stop), daemon=True)
        for i in range(STREAMS)
    ]
    for thread in threads:
        thread.start()
    with Database(url) as database:
        _write_records(database, numbers, 0)
        time.sleep(1.0)
        before, begun = process.cpu_times(), time.monotonic()
        memory = process.memory_info().rss
        step = 1
        while time.monotonic() - begun < seconds:
            sent[step] = time.time()
            _write_records(database, numbers, step)
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


# Waits for a run to begin, then follows all of its points.
_WATCH: Final = """
import sys, time, urllib.request
base, name = sys.argv[1:]
while True:
    try:
        urllib.request.urlopen(f"{base}/runs/{name}")
        break
    except OSError:
        time.sleep(0.2)
for line in urllib.request.urlopen(f"{base}/events?topics=runs,run:{name}"):
    pass
"""


def _training(home: Path, port: int, *, rounds: int, seconds: float) -> ServeRow:
    """The part of a run's speed that is lost while a client watches it, by runs in turns."""
    lost = []
    for turn in range(rounds):
        speeds = []
        for watched in (False, True):
            name = f"beside-{turn}-{watched}"
            command = [sys.executable, "-c", _WATCH, f"http://127.0.0.1:{port}/api/rl", name]
            client = subprocess.Popen(command) if watched else None
            try:
                run = train(
                    "cartpole",
                    minutes=seconds / 60,
                    config={"train.until": None, "train.steps": None, "train.evaluate_episodes": 0},
                    home=home,
                    store=str(home / "hotloop.db"),
                    name=name,
                    progress=False,
                )
            finally:
                if client is not None:
                    client.kill()
                    client.wait()
            speeds.append(run.steps_per_second)
        lost.append(100 * (1 - speeds[1] / speeds[0]))
    return ServeRow("speed that training loses while it is watched", statistics.median(lost), "%", 3.0)


def _write_records(database: Database, numbers: list[int], step: int) -> None:
    now = time.time()
    keys = list(database.key_numbers([f"metric.{i}" for i in range(METRICS)]).items())
    chosen = [number for name, number in keys if name.startswith("metric.")]
    with database.transaction():
        rows = [(run, key, 10_000_000 + step, now, float(step)) for run in numbers for key in chosen]
        database.insert("metrics", ("run", "key", "step", "time", "value"), rows, unique=("run", "key", "step"))
        for run in numbers:
            database.execute("UPDATE runs SET taken = taken + 1, seen = ? WHERE number = ?", (now, run))


def _listen(port: int, run: str, sent: dict[int, float], late: list[float], stop: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", f"/api/rl/events?topics=run:{run}&metrics=metric.0")
        reply = connection.getresponse()
        while not stop.is_set():
            line = reply.readline()
            if line.startswith(b"data: ") and b'"metric.0"' in line:
                points = json.loads(line[6:])["points"]["metric.0"]
                at = sent.get(points[-1][0] - 10_000_000)
                if at is not None:
                    late.append(time.time() - at)
    connection.close()


def _url(home: Path) -> Any:
    from hotloop.tracking.store_url import find_store_url

    url = find_store_url(home / "hotloop.db", home)
    assert url is not None
    return url


def _fill(home: Path, points: int, long: int) -> str:
    """One real run with long metrics, and copies of its row."""
    from hotloop.tracking.database import Database

    settings = {"train.until": None, "train.evaluate_episodes": 100}
    train(
        "cartpole",
        steps=100_000,
        config=settings,
        home=home,
        store=str(home / "hotloop.db"),
        name="real",
        progress=False,
    )
    _copy_runs(home, RUNS - 1, "copy")
    with Database(_url(home)) as database:
        ((number,),) = database.execute("SELECT number FROM runs WHERE name = ?", ("real",)).fetchall()
        names = [f"metric.{i}" for i in range(METRICS)]
        keys = database.key_numbers([*names, _METRIC])
        columns = ("run", "key", "step", "time", "value")
        for name, size in [*((name, points) for name in names), (_METRIC, long)]:
            with database.transaction():
                rows = [(number, keys[name], step, 1e9 + step / 1000, step * 7919 % 1000) for step in range(size)]
                database.insert("metrics", columns, rows)
    return "real"


def _copy_runs(home: Path, count: int, prefix: str) -> list[int]:
    from hotloop.tracking.database import Database

    with Database(_url(home)) as database, database.transaction():
        found = database.execute("SELECT * FROM runs WHERE name = ?", ("real",))
        run = dict(zip([column[0] for column in found.description], found.fetchone(), strict=True))
        run.pop("number")
        copies = [
            {**run, "id": f"{prefix}{i:08x}", "name": f"{prefix}-{i}", "path": str(home / f"{prefix}-{i}")}
            for i in range(count)
        ]
        database.insert("runs", list(run), [list(copy.values()) for copy in copies])
        rows = database.execute("SELECT number FROM runs WHERE id LIKE ?", (f"{prefix}%",)).fetchall()
    return [number for (number,) in rows]


def _peers(home: Path, runs: int) -> list[ServeRow]:
    """TensorBoard over runs of one curve, and Hotloop over as many: start to first useful answer, and memory."""
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: F401
    except ImportError:
        return []
    folder = home / "tensorboard"
    _write_tensorboard(folder, runs)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    begun = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(folder),
        "--port",
        str(port),
        "--load_fast=false",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, "/data/plugin/scalars/tags", lambda body: len(json.loads(body)) >= runs, process)
        took = time.perf_counter() - begun
        memory = psutil.Process(process.pid).memory_info().rss / 1e6
    finally:
        process.kill()
        process.wait()
    with _server(home) as (client, own, start, _):
        ours = start + client.seconds("/api/rl/runs?limit=100")
        own_memory = own.memory_info().rss / 1e6
    return [
        ServeRow(f"TensorBoard: start to {runs} runs listed", took, "s", None),
        ServeRow(f"Hotloop: start to {MANY_RUNS} runs listed", ours, "s", None),
        ServeRow("TensorBoard's time / Hotloop's", took / ours, "x", None),
        ServeRow("TensorBoard's memory / Hotloop's", memory / own_memory, "x", None),
    ]


def _write_tensorboard(folder: Path, runs: int) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for i in range(runs):
        writer = EventFileWriter(str(folder / f"run-{i}"))
        for step in range(100):
            value = Summary.Value(tag="return", simple_value=float(step))
            writer.add_event(Event(step=step, wall_time=1e9 + step, summary=Summary(value=[value])))
        writer.close()


def _wait_for(port: int, path: str, is_done: Callable[[bytes], bool], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", path)
            reply = connection.getresponse()
            body = reply.read()
            connection.close()
            if reply.status == 200 and is_done(body):
                return
        time.sleep(0.1)
    raise RuntimeError("TensorBoard did not list its runs within 300 s")
