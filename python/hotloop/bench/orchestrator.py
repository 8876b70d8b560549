"""`hotloop bench orchestrator`: latencies of the queue, and the adaptive limit against fixed ones."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from hotloop.bench import sleeping_env
from hotloop.config.loader import load_config
from hotloop.orchestrator.api import submit_requests
from hotloop.orchestrator.folder import JobFolder
from hotloop.orchestrator.job import Job, Request
from hotloop.orchestrator.queue import Queue
from hotloop.orchestrator.requests import train_request
from hotloop.tracking.job_queries import jobs_page, orchestrator_status

Progress = Callable[[str], None]
FIXED: Final = (1, 2, 4, 8, 16)
_POLL: Final = 0.002
# Seconds between decisions: mixes last a minute, and jobs seconds.
_INTERVAL: Final = 1.0


@dataclass(frozen=True)
class Figure:
    """A measured figure and its goal."""

    name: str
    value: float
    unit: str
    goal: float
    at_least: bool = False
    """Whether the goal is a lower bound."""

    @property
    def is_met(self) -> bool:
        """Whether the goal is met."""
        return self.value >= self.goal if self.at_least else self.value <= self.goal


@dataclass(frozen=True)
class Mix:
    """A mix of jobs, and how long it took under each limit."""

    name: str
    makespans: dict[str, float]
    """Seconds by limit, `adaptive` among them."""
    killed: int
    """Jobs that died."""
    cores: float
    """Cores that the adaptive orchestrator itself used."""

    @property
    def against_best(self) -> float:
        """Adaptive makespan over that of the best fixed limit."""
        return self.makespans["adaptive"] / min(self._fixed)

    @property
    def against_worst(self) -> float:
        """Adaptive makespan over that of the worst fixed limit."""
        return self.makespans["adaptive"] / max(self._fixed)

    @property
    def _fixed(self) -> list[float]:
        return [seconds for limit, seconds in self.makespans.items() if limit != "adaptive"]


@contextlib.contextmanager
def _bench_home() -> Iterator[Path]:
    """A home of its own, for this process and its children."""
    before = {name: os.environ.get(name) for name in ("HOTLOOP_HOME", "HOTLOOP_STORE")}
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as name:
        os.environ["HOTLOOP_HOME"] = name
        os.environ.pop("HOTLOOP_STORE", None)
        try:
            yield Path(name)
        finally:
            for key, value in before.items():
                os.environ.pop(key, None)
                if value is not None:
                    os.environ[key] = value


@contextlib.contextmanager
def _work(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "hotloop", "jobs", "work", *arguments]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _training(home: Path, seed: int, steps: int, **overrides: Any) -> Request:
    settings = {"train.seed": seed, "train.steps": steps, "train.until": None, "train.evaluate_episodes": 0}
    name = overrides.pop("env", "cartpole")
    return train_request(load_config(name, overrides={**settings, **overrides}), home=home)


def _wait(condition: Callable[[], Any]) -> float:
    """Wait until a condition holds; return the time."""
    while not condition():
        time.sleep(_POLL)
    return time.time()


def measure_figures(progress: Progress, *, quick: bool = False) -> list[Figure]:
    """Measure latencies and costs of the queue and an orchestrator."""
    figures: list[Figure] = []
    with _bench_home() as home, Queue(None, home) as queue:
        progress("submissions")
        figures += _submissions(queue, home, 50 if quick else 400, 2_000 if quick else 20_000)
        progress("list")
        start = time.perf_counter()
        jobs_page(queue, limit=10_000)
        figures.append(Figure("list 10 k jobs", time.perf_counter() - start, "s", 0.5))
    with _bench_home() as home, Queue(None, home) as queue:
        with _work() as process:
            _wait(lambda: _is_up(queue, process))
            progress("latency")
            figures += _latencies(queue, home, 10 if quick else 60)
            progress("exact run again")
            figures.append(_answered(queue, home))
            progress("idle")
            figures += _idle(process, 2.0 if quick else 20.0)
        progress("preemption")
        figures += _preemption(queue, home)
        progress("adoption")
        figures.append(_adoption(queue, home))
    return figures


def _is_up(queue: Queue, process: subprocess.Popen[bytes]) -> bool:
    status = orchestrator_status(queue)
    return status is not None and status["process"] == process.pid and bool(status["facts"])


def _submissions(queue: Queue, home: Path, single: int, batch: int) -> list[Figure]:
    template = _training(home, 0, 1000)

    def requests(prefix: str, count: int) -> list[Request]:
        return [replace(template, key=f"{prefix}-{number}") for number in range(count)]

    start = time.perf_counter()
    for request in requests("single", single):
        queue.submit(request)
    alone = single / (time.perf_counter() - start)
    many = requests("batch", batch)
    start = time.perf_counter()
    queue.submit_many(many)
    together = batch / (time.perf_counter() - start)
    return [
        Figure("submit, one by one, durable", alone, "1/s", 200, at_least=True),
        Figure("submit in a batch", together, "1/s", 20_000, at_least=True),
    ]


def _latencies(queue: Queue, home: Path, count: int) -> list[Figure]:
    seconds = []
    for seed in range(count):
        (job,) = submit_requests(queue, [_training(home, seed, 2048)])
        _wait(partial(_is_over, queue, job.number))
        seconds.append(_birth(queue.job(job.number)) - job.submitted)
    seconds.sort()
    return [
        Figure("queued to first instruction, median", 1e3 * statistics.median(seconds), "ms", 50),
        Figure("queued to first instruction, 99 %", 1e3 * seconds[int(0.99 * (len(seconds) - 1))], "ms", 200),
    ]


def _is_over(queue: Queue, number: int) -> bool:
    return queue.job(number).is_over


def _birth(job: Job) -> float:
    """When the job's process wrote its identity, which is the first thing that it does."""
    return (job.path / "process").stat().st_mtime


def _answered(queue: Queue, home: Path) -> Figure:
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        (job,) = submit_requests(queue, [_training(home, 0, 2048)])
        seconds.append(time.perf_counter() - start)
        assert job.state == "completed"
    return Figure("completed exact run again", 1e3 * statistics.median(seconds), "ms", 10)


def _idle(process: subprocess.Popen[bytes], seconds: float) -> list[Figure]:
    members = [process.pid, *_children(process.pid)]
    before = sum(map(_cpu_seconds, members))
    time.sleep(seconds)
    share = (sum(map(_cpu_seconds, members)) - before) / seconds
    memory = sum(map(_proportional_memory, members))
    return [
        Figure("idle, of a core", 100 * share, "%", 0.5),
        Figure("idle, memory with its launcher", memory / 1e6, "MB", 60),
    ]


def _children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _proportional_memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _is_training(queue: Queue, number: int) -> bool:
    job = queue.job(number)
    return job.state == "running" and JobFolder(job.path).read_progress() is not None


def _preemption(queue: Queue, home: Path) -> list[Figure]:
    with _work("--limit", "1"):
        (low,) = submit_requests(queue, [_training(home, 1000, 10**9)])
        _wait(lambda: _is_training(queue, low.number))
        (high,) = submit_requests(queue, [replace(_training(home, 1001, 2048), priority=5)])
        _wait(lambda: queue.job(high.number).is_over)
        freed = _birth(queue.job(high.number)) - high.submitted
        ended = queue.job(high.number).ended or 0.0
        resumed = _wait(lambda: _is_training(queue, low.number)) - ended
        queue.cancel(low.number)
        _wait(lambda: queue.job(low.number).is_over)
    return [
        Figure("preempt to slot free", 1e3 * freed, "ms", 100),
        Figure("preempted job trains again", resumed, "s", 1.0),
    ]


def _adoption(queue: Queue, home: Path) -> Figure:
    with _work() as first:
        (job,) = submit_requests(queue, [_training(home, 2000, 10**9)])
        _wait(lambda: _is_training(queue, job.number))
        first.send_signal(signal.SIGKILL)
        first.wait()
    start = time.time()
    with _work() as second:
        adopted = _wait(lambda: _is_up(queue, second)) - start
        queue.cancel(job.number)
        _wait(lambda: queue.job(job.number).is_over)
    return Figure("restarted, jobs adopted", adopted, "s", 1.0)


def measure_mix(name: str, progress: Progress, *, fixed: Sequence[int] = FIXED, jobs: int = 32) -> Mix:
    """Work through a mix of jobs under each fixed limit and the adaptive one, in turns."""
    makespans: dict[str, float] = {}
    killed, cores = 0, 0.0
    for limit in [*map(str, fixed), "adaptive"]:
        progress(f"mix {name}, limit {limit}")
        arguments = ["--until-done", f"orchestrator.adaptation_interval={_INTERVAL}"]
        if limit != "adaptive":
            arguments += ["--limit", limit]
        with _bench_home() as home, Queue(None, home) as queue:
            submit_requests(queue, _mix_requests(name, home, jobs))
            start = time.perf_counter()
            with _work(*arguments) as process, _neighbour(enabled=name == "D", seconds=float(jobs) / 6):
                used = _watch(process)
            makespans[limit] = time.perf_counter() - start
            killed += sum(len(job.deaths) for job in queue.jobs())
            if limit == "adaptive":
                cores = used / makespans[limit]
    return Mix(name, makespans, killed, cores)


def _watch(process: subprocess.Popen[bytes]) -> float:
    """Wait until the orchestrator ends; return the CPU seconds that it used after its imports, without its jobs."""
    start, used = 0.0, 0.0
    while process.poll() is None:
        with contextlib.suppress(OSError):
            members = [process.pid, *_children(process.pid)]
            used = sum(map(_cpu_seconds, members))
            if len(members) == 1:
                # It forks its launcher when it has imported everything.
                start = used
        time.sleep(0.05)
    return used - start


def _mix_requests(name: str, home: Path, jobs: int) -> list[Request]:
    native = {"runner.num_threads": 1}
    sleeping = {"env": f"{sleeping_env.__name__}:SleepingEnv", "runner.num_envs": 2, "runner.num_workers": 2}
    sleeping |= {"ppo.horizon": 64, "ppo.minibatch_size": 128}
    requests = []
    for seed in range(jobs):
        if name in ("A", "D") or (name == "E" and seed % 2 == 0):
            requests.append(_training(home, seed, 1_000_000, **native))
        else:
            memory = {"env.megabytes": 1250} if name == "C" else {}
            requests.append(_training(home, seed, 512, **sleeping, **memory))
    return requests


@contextlib.contextmanager
def _neighbour(*, enabled: bool, seconds: float) -> Iterator[None]:
    """A process that keeps one core busy in the middle third."""
    if not enabled:
        yield
        return
    program = f"import time; time.sleep({seconds}); end = time.time() + {seconds}\nwhile time.time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            yield
        finally:
            process.kill()
