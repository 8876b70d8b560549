"""One worker process as its pool sees it: starting it, talking to it, ending it, and explaining how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal

from hotloop.errors import EnvError
from hotloop.runners.health import Limits

_PACKAGE: Final = Path(__file__).resolve().parent.parent
_STDERR: Final = 2
_POLL_SECONDS: Final = 0.2

ProcessState = Literal["starting", "made", "ready", "lost"]
"""`made`: it has made its envs, and the shared memory was described to it. `lost`: it ended, and was disposed of."""


class WorkerProcess:
    """A worker process and the connection to it."""

    def __init__(
        self, index: int, memory: int, life: int, order: dict[str, Any], python: str | None, limits: Limits
    ) -> None:
        self.index = index
        self.state: ProcessState = "starting"
        self.started = time.monotonic()
        self.kill_reason: tuple[str, str] | None = None
        """The kind of fault and the text with which `kill` was called."""
        self.failure: tuple[str, str] | None = None
        """The message and traceback that it sent before it ended."""
        self._limits = limits
        self._python = python
        ours, theirs = socket.socketpair()
        self._black_box = os.memfd_create("hotloop-black-box")
        environment = dict(os.environ)
        if limits.cores is not None or "OMP_NUM_THREADS" not in environment:
            threads = str(limits.cores or 1)
            environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        files = (theirs.fileno(), memory, self._black_box, life)
        boot = str(_PACKAGE / "runners" / "boot.py")
        with theirs:
            self.process = subprocess.Popen(
                [python or sys.executable, "-P", boot, str(_PACKAGE), *map(str, files)],
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                # Standard output belongs to this program; what envs print is for people.
                stdout=_STDERR,
                env=environment,
                # Processes that an env starts are killed with its worker.
                process_group=0,
            )
        self._swept = False
        self.connection: Connection[Any, Any] = Connection(ours.detach())
        # One that has ended already is noticed when its answer is waited for.
        with contextlib.suppress(BrokenPipeError):
            self.connection.send(order)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def poll(self) -> int | None:
        """Return the exit code once the process has ended; kill the processes that it left behind."""
        code = self.process.poll()
        if code is not None and not self._swept:
            self._swept = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        return code

    def messages(self, seconds: float = 0.0) -> list[Any]:
        """Return the messages that have arrived, or that arrive within so many seconds."""
        found: list[Any] = []
        with contextlib.suppress(EOFError, OSError):
            while self.connection.poll(0.0 if found else seconds):
                found.append(self.connection.recv())
        return found

    def wait_for(self, expected: str) -> Any:
        """Wait for a message during the pool's start, when any failure is the user's to see; return its content.

        Raises:
            EnvError: The worker failed to make its envs, ended, or took longer than the limit.
        """
        begin, limit = time.monotonic(), self._limits.start
        # A process that an env started may hold the connection open after its worker's end.
        while not self.connection.poll(_POLL_SECONDS) and self.poll() is None:
            if limit is not None and time.monotonic() - begin > limit:
                self.kill("timeout", "")
                raise EnvError(f"worker {self.index} took more than {limit:g} s to make its envs\n{self.stack()}")
        try:
            message = self.connection.recv() if self.connection.poll() else None
        except (EOFError, OSError):
            message = None
        if message is None:
            ending = describe_exit(self.process.wait())
            check_version(self._python)
            raise EnvError(f"worker {self.index} {ending} while it made its envs\n{self.stack()}".rstrip())
        if message[0] == "failed":
            raise EnvError(f"the env cannot be made: {message[1]}\n\n{message[2]}".rstrip())
        assert message[0] == expected
        return message[1] if len(message) > 1 else None

    def kill(self, kind: str, why: str) -> None:
        """Kill the process; its Python stack goes to the black box first."""
        self.kill_reason = (kind, why)
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
            self.process.kill()

    def stack(self) -> str:
        """Return the Python stack in the black box, if the process could still write it."""
        size = os.fstat(self._black_box).st_size
        return os.pread(self._black_box, size, 0).decode(errors="replace")

    def explain_exit(self, code: int) -> tuple[str, str, str]:
        """Return the kind, message and traceback of the fault that ended the process."""
        if self.kill_reason is not None:
            return (*self.kill_reason, self.stack())
        if self.failure is not None:
            return ("raise", *self.failure)
        hint = ", as the system does when memory runs out" if code == -signal.SIGKILL else ""
        return "exit" if code >= 0 else "killed", f"its worker {describe_exit(code)}{hint}", self.stack()

    def resident(self) -> int:
        """Return the bytes of memory that the process holds."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        except (OSError, IndexError):
            return 0

    def dispose(self) -> None:
        """Kill the process if it still runs, and free what this side holds of it."""
        if self.poll() is None:
            self.process.kill()
        self.process.wait()
        self.poll()
        self.connection.close()
        os.close(self._black_box)


def check_version(python: str | None) -> None:
    """Raise an `EnvError` if an interpreter is too old for workers."""
    if python is None:
        return
    asked = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    version = tuple(map(int, asked.stdout.split())) if asked.returncode == 0 else ()
    if version and version < (3, 11):
        found = ".".join(map(str, version))
        raise EnvError(f"runner.worker_python is {python}, which is Python {found}: workers need 3.11 or newer")


def describe_exit(code: int) -> str:
    """Return how a process ended, from its exit code as `subprocess` gives it."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
