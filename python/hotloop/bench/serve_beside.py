"""The speed that a run loses while somebody watches it."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_TRAIN: Final = """
import sys, hotloop
run = hotloop.train("cartpole", minutes=float(sys.argv[1]) / 60, name=sys.argv[2], home=sys.argv[3],
    store=sys.argv[3] + "/hotloop.db", progress=False,
    config={"train.until": None, "train.steps": None, "train.evaluate_episodes": 0})
print(run.steps_per_second)
"""
_FOLLOW: Final = """
import sys, urllib.request
for line in urllib.request.urlopen(sys.argv[1]):
    pass
"""


@contextlib.contextmanager
def training(home: Path, name: str, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A process that trains for so long and prints its speed."""
    command = [sys.executable, "-c", _TRAIN, str(seconds), name, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_run(url: str, name: str) -> None:
    """Wait until the server knows a run."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/api/rl/runs/{name}")
            return
        time.sleep(0.1)
    raise RuntimeError(f"the run {name} did not begin within 60 s")


@contextlib.contextmanager
def follow_stream(url: str, name: str) -> Iterator[None]:
    """Read all events of a run, as a hidden page does."""
    wait_for_run(url, name)
    address = f"{url}/api/rl/events?topics=runs,run:{name}"
    with subprocess.Popen([sys.executable, "-c", _FOLLOW, address]) as process:
        try:
            yield
        finally:
            process.kill()


def lost_speed(
    home: Path, label: str, watch: Callable[[str], AbstractContextManager[None]], *, rounds: int, seconds: float
) -> float:
    """The share of its speed that a run loses while it is watched, in percent: the median of runs in turns."""
    lost = []
    for turn in range(rounds):
        speeds = {}
        # Neither is always the first.
        for is_watched in (True, False) if turn % 2 else (False, True):
            name = f"{label}-{turn}-{is_watched}"
            with training(home, name, seconds) as process, watch(name) if is_watched else contextlib.nullcontext():
                output, _ = process.communicate()
            speeds[is_watched] = float(output)
        lost.append(100 * (1 - speeds[True] / speeds[False]))
    return statistics.median(lost)
