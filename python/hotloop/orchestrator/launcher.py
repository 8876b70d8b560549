"""The launcher: a process that has imported everything and forks a child for each job, within milliseconds.

It has no threads and no connection to the store, so that its children inherit neither. It ends with its orchestrator;
its children do not.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

RunCommand = Callable[[list[str]], int]
_LONGEST_MESSAGE: Final = 1 << 16


class Report(NamedTuple):
    """The start of a child, or its end."""

    pid: int
    folder: str
    """Folder of its job."""
    status: int | None
    """As `os.wait` reports it; `None` at the start."""


def import_what_jobs_need() -> None:
    """Import the modules of a training run, so that children find them imported."""
    import hotloop.orchestrator.child
    import hotloop.policies.evaluation
    import hotloop.training.session
    import hotloop.training.start
    import hotloop.training.trainer  # noqa: F401


class Launcher:
    """A handle on the launcher's process. Must be made while no connection to the store is open.

    Args:
        run_command: Runs a command of `hotloop` in a child and returns its exit code.
    """

    def __init__(self, run_command: RunCommand) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._socket.close()
            _serve(theirs, run_command)
        theirs.close()
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Return the handle that becomes readable when a child ends, or the launcher itself."""
        return self._socket.fileno()

    def launch(self, folder: Path, attempt: int) -> None:
        """Start the process of a job's attempt."""
        self._socket.send(json.dumps([str(folder), attempt]).encode())

    def reports(self) -> list[Report]:
        """Return the children that started or ended since the last call; raise `EOFError` if the launcher is gone."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    message = self._socket.recv(_LONGEST_MESSAGE)
                except ConnectionResetError:
                    message = b""
                if not message:
                    raise EOFError
                found.append(Report(*json.loads(message)))
        return found

    def close(self) -> None:
        """End the launcher; running children go on."""
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _serve(requests: socket.socket, run_command: RunCommand) -> NoReturn:
    """Fork a child per request and report their ends, until the orchestrator is gone; never returns."""
    code = 1
    try:
        # A session of its own: Ctrl-C on the orchestrator's terminal is not for jobs.
        os.setsid()
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        gc.collect()
        gc.freeze()
        folders: dict[int, str] = {}
        while True:
            ready, _, _ = select.select([requests.fileno(), woken], [], [])
            if woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 4096)
                _report_ends(requests, folders)
            if requests.fileno() in ready:
                message = requests.recv(_LONGEST_MESSAGE)
                if not message:
                    break
                folder, attempt = json.loads(message)
                with warnings.catch_warnings():
                    # NumPy's idle threads are no danger to a child that starts its own.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    pid = os.fork()
                if pid == 0:
                    requests.close()
                    signal.set_wakeup_fd(-1)
                    os.close(woken)
                    os.close(wake)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _become_job(folder, attempt, run_command)
                folders[pid] = folder
                requests.send(json.dumps(Report(pid, folder, None)).encode())
        code = 0
    except (BrokenPipeError, ConnectionResetError):
        code = 0
    finally:
        os._exit(code)


def _report_ends(reports: socket.socket, folders: dict[int, str]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        reports.send(json.dumps(Report(pid, folders.pop(pid, ""), status)).encode())


def _become_job(folder: str, attempt: int, run_command: RunCommand) -> NoReturn:
    """Run a job in this new child; never returns."""
    code = 1
    try:
        os.setsid()
        # A job that dies may be repeated: a core dump would only fill the disk.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        gc.unfreeze()
        from hotloop.orchestrator.child import run

        code = run(Path(folder), attempt, run_command)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
