"""A real orchestrator in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hotloop.orchestrator.job import Job
from hotloop.orchestrator.processes import sessions
from hotloop.orchestrator.queue import Queue

# Longest wait for something that must happen; a busy machine may be slow.
_DEADLINE = 120.0


def start_work(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start `hotloop jobs work` with default handling of signals, whatever this process ignores."""
    command = [sys.executable, "-m", "hotloop", "jobs", "work", *arguments]
    return subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=_default_signals,
    )


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def work_until_done(*arguments: str) -> str:
    """Run all jobs; return what the orchestrator printed."""
    process = start_work("--until-done", *arguments)
    _, messages = process.communicate()
    assert process.returncode == 0, messages
    return messages


@contextlib.contextmanager
def working(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """An orchestrator that is ended when the block is left, if it still runs."""
    process = start_work(*arguments)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + _DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def submit(*words: str) -> Job:
    """Queue a job with the real command and return it."""
    command = [sys.executable, "-m", "hotloop", "jobs", "submit", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout.splitlines()[-1])["jobs"]
    return get(numbers[0])


def get(number: int) -> Job:
    """The job as it is now."""
    with Queue(None, Path(os.environ["HOTLOOP_HOME"])) as queue:
        return queue.job(number)


def change(action: str, number: int, **arguments: Any) -> Job:
    """The job after a request of a user."""
    with Queue(None, Path(os.environ["HOTLOOP_HOME"])) as queue:
        job: Job = getattr(queue, action)(number, **arguments)
        return job


def living(pids: Sequence[int]) -> list[int]:
    """Those of these processes that run; one that ended may wait to be collected by the machine's first process."""
    members = {pid for each in sessions().values() for pid in each}
    return [pid for pid in pids if pid in members]


def processes_of(job: Job) -> list[int]:
    """The processes of a job that was started."""
    from hotloop.orchestrator.folder import JobFolder

    identity = JobFolder(job.path).read_process()
    return [] if identity is None else sessions().get(identity.pid, [])
