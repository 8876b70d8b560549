"""TensorBoard, MLflow and Hotloop over the same curves: time from start to first useful paint, and memory."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from hotloop.bench.serve_row import ServeRow
from hotloop.bench.serve_store import copy_runs, number_of, store_url, train_real, write_points
from hotloop.tracking.database import Database

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_POINTS: Final = 1000


@dataclass(frozen=True)
class Peer:
    """A program that shows curves of runs in a browser."""

    name: str
    needs: tuple[str, ...]
    write: Callable[[Path, int], None]
    """Writes so many runs with one curve each to a folder."""
    command: Callable[[Path, int], list[str]]
    """Serves the folder at a port."""
    page: str
    useful: str
    """Selector of what its page is opened for."""

    def is_installed(self) -> bool:
        """Whether its packages are there."""
        return all(importlib.util.find_spec(name) is not None for name in self.needs)


def measure_peers(browser: Browser, folder: Path, runs: int) -> list[ServeRow]:
    """Three starts of each program in turns; medians, and ratios to Hotloop's."""
    found = [peer for peer in PEERS if peer.is_installed()]
    for peer in found:
        (folder / peer.name).mkdir(parents=True)
        peer.write(folder / peer.name, runs)
    seconds: dict[str, list[float]] = {peer.name: [] for peer in found}
    memory: dict[str, list[float]] = {peer.name: [] for peer in found}
    for _ in range(3):
        for peer in found:
            begun = time.perf_counter()
            with _served(peer, folder / peer.name) as (url, process):
                page = browser.new_page()
                page.goto(url + peer.page)
                page.locator(peer.useful).first.wait_for(timeout=120_000)
                seconds[peer.name].append(time.perf_counter() - begun)
                memory[peer.name].append(_memory(process))
                page.close()
    rows = []
    for peer in found:
        took, held = statistics.median(seconds[peer.name]), statistics.median(memory[peer.name])
        rows.append(ServeRow(f"{peer.name}: start to first useful paint, {runs} runs", took, "s"))
        rows.append(ServeRow(f"{peer.name}: memory of the server", held, "MB"))
        if peer is not HOTLOOP:
            rows.append(ServeRow(f"{peer.name} / Hotloop, time", took / statistics.median(seconds[HOTLOOP.name]), "x"))
            rows.append(ServeRow(f"{peer.name} / Hotloop, memory", held / statistics.median(memory[HOTLOOP.name]), "x"))
    return rows


@contextlib.contextmanager
def _served(peer: Peer, folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = peer.command(folder, port)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    tree = psutil.Process(process.pid)
    try:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(url)
                break
            time.sleep(0.02)
        else:
            raise RuntimeError(f"{peer.name} does not answer")
        yield url, tree
    finally:
        for child in [*tree.children(recursive=True), tree]:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        process.wait()


def _memory(process: psutil.Process) -> float:
    return sum(each.memory_info().rss for each in [process, *process.children(recursive=True)]) / 1e6


def _curve(run: int, step: int) -> float:
    return math.tanh(step / 300) * (run + 1)


def _write_hotloop(folder: Path, runs: int) -> None:
    train_real(folder)
    numbers = copy_runs(folder, runs - 1, "copy")
    with Database(store_url(folder)) as database:
        for number in [number_of(database, "real"), *numbers]:
            write_points(database, number, "curve", _POINTS)


def _write_tensorboard(folder: Path, runs: int) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for run in range(runs):
        writer = EventFileWriter(str(folder / f"run-{run}"))
        for step in range(_POINTS):
            value = Summary.Value(tag="curve", simple_value=_curve(run, step))
            writer.add_event(Event(step=step, wall_time=1e9 + step, summary=Summary(value=[value])))
        writer.close()


def _write_mlflow(folder: Path, runs: int) -> None:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    client = MlflowClient(tracking_uri=_mlflow_store(folder))
    experiment = client.create_experiment("bench")
    for number in range(runs):
        run = client.create_run(experiment, run_name=f"run-{number}")
        metrics = [Metric("curve", _curve(number, step), 10**12 + step, step) for step in range(_POINTS)]
        client.log_batch(run.info.run_id, metrics)


def _mlflow_store(folder: Path) -> str:
    return f"sqlite:///{folder}/mlflow.db"


def _serve_hotloop(folder: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "hotloop", "serve", "--port", str(port), "--store", str(folder / "hotloop.db")]


def _serve_tensorboard(folder: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(port)]


def _serve_mlflow(folder: Path, port: int) -> list[str]:
    store = ["--backend-store-uri", _mlflow_store(folder)]
    return [sys.executable, "-m", "mlflow", "ui", "--port", str(port), "--workers", "1", *store]


HOTLOOP: Final = Peer("Hotloop", (), _write_hotloop, _serve_hotloop, "/runs", 'tbody a[href^="/runs/"]')
TENSORBOARD: Final = Peer(
    "TensorBoard", ("tensorboard",), _write_tensorboard, _serve_tensorboard, "/#timeseries", "scalar-card line-chart"
)
# Its first experiment is an empty default.
MLFLOW: Final = Peer(
    "MLflow", ("mlflow", "flask"), _write_mlflow, _serve_mlflow, "/#/experiments/1/runs", "text=/^run-\\d+$/"
)
PEERS: Final = (HOTLOOP, TENSORBOARD, MLFLOW)
