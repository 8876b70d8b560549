"""Worker processes, and the thread that watches over them: it notices who died, hangs or takes too much memory.

The thread only notices and ends processes; what follows (a new process, a report) is the runner's, in its own thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.runners.health import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_PACKAGE: Final = Path(__file__).resolve().parent.parent
_LOOK: Final = 0.1
_STDERR: Final = 2


class Child:
    """One worker process."""

    def __init__(
        self, index: int, memory: int, life: int, order: dict[str, Any], python: str | None, limits: Limits
    ) -> None:
        self.index = index
        self.state = "starting"
        """Then `made`, `ready`, and `lost`."""
        self.began = time.monotonic()
        self.reason: tuple[str, str] | None = None
        """Why the supervisor ended it: a kind and words."""
        self.failure: tuple[str, str] | None = None
        """What it said itself before it ended: words and a traceback."""
        ours, theirs = socket.socketpair()
        self.black_box = os.memfd_create("hotloop-black-box")
        environment = dict(os.environ)
        if limits.cores is not None or "OMP_NUM_THREADS" not in environment:
            threads = str(limits.cores or 1)
            environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        files = (theirs.fileno(), memory, self.black_box, life)
        with theirs:
            self.process = subprocess.Popen(
                [
                    python or sys.executable,
                    "-P",
                    str(_PACKAGE / "runners" / "boot.py"),
                    str(_PACKAGE),
                    *map(str, files),
                ],
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                # What envs print is for people; standard output is the program's own.
                stdout=_STDERR,
                env=environment,
                # Processes that an env starts end with it.
                process_group=0,
            )
        self._swept = False
        self.connection: Connection[Any, Any] = Connection(ours.detach())
        self.connection.send(order)

    @property
    def pid(self) -> int:
        """The process."""
        return self.process.pid

    def poll(self) -> int | None:
        """Its exit code once it has ended; what it started and left behind is ended then."""
        code = self.process.poll()
        if code is not None and not self._swept:
            self._swept = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        return code

    def messages(self, seconds: float = 0.0) -> list[Any]:
        """What it has said since, or says within so many seconds."""
        found: list[Any] = []
        with contextlib.suppress(EOFError, OSError):
            while self.connection.poll(0.0 if found else seconds):
                found.append(self.connection.recv())
        return found

    def end(self, kind: str, why: str) -> None:
        """Ends it by force; its Python stack goes to the black box first."""
        self.reason = (kind, why)
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
            self.process.kill()

    def stack(self) -> str:
        """What the black box has: the Python stack at the end, if the process could still write it."""
        size = os.fstat(self.black_box).st_size
        return os.pread(self.black_box, size, 0).decode(errors="replace")

    def resident(self) -> int:
        """Bytes of memory it holds."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        except (OSError, IndexError):
            return 0

    def dispose(self) -> None:
        """Frees what this side holds of it."""
        if self.poll() is None:
            self.process.kill()
        self.process.wait()
        self.poll()
        self.connection.close()
        os.close(self.black_box)


class Supervisor:
    """Watches children from a thread of its own, and rings when the runner should look."""

    def __init__(self, limits: Limits, alarm: Callable[[], None]) -> None:
        self._limits = limits
        self._alarm = alarm
        self._children: tuple[Child, ...] = ()
        self.pulse: NDArray[Any] | None = None
        """When each worker's step and reset began, once there is shared memory."""
        self._wake_read, self._wake_write = os.pipe()
        self._stop = False
        self._thread = threading.Thread(target=self._watch, name="hotloop-supervisor", daemon=True)
        self._thread.start()

    def watch(self, children: tuple[Child, ...]) -> None:
        """These are the children now."""
        self._children = children
        os.write(self._wake_write, b"x")

    def close(self) -> None:
        """Ends the thread."""
        self._stop = True
        os.write(self._wake_write, b"x")
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _watch(self) -> None:
        told: set[int] = set()
        while not self._stop:
            poll = select.poll()
            poll.register(self._wake_read, select.POLLIN)
            watched = [child for child in self._children if child.state != "lost" and child.pid not in told]
            handles: list[int] = []
            for child in watched:
                with contextlib.suppress(OSError):
                    handles.append(os.pidfd_open(child.pid))
                    poll.register(handles[-1], select.POLLIN)
                if child.state in ("starting", "made"):
                    with contextlib.suppress(OSError):
                        poll.register(child.connection.fileno(), select.POLLIN)
            happened = poll.poll(_LOOK * 1000)
            for handle in handles:
                os.close(handle)
            if any(fd == self._wake_read for fd, _ in happened):
                os.read(self._wake_read, 4096)
            for child in watched:
                if child.poll() is not None:
                    told.add(child.pid)
                    self._alarm()
                else:
                    self._check(child)
            if happened and any(child.state in ("starting", "made") and child.pid not in told for child in watched):
                self._alarm()
                # The runner reads what was said; without a pause this loop would ask again at once.
                time.sleep(0.002)

    def _check(self, child: Child) -> None:
        limits, now = self._limits, time.monotonic()
        if child.reason is not None:
            return
        if limits.memory is not None and child.resident() > limits.memory * 2**20:
            child.end(
                "memory", f"it held {child.resident() / 2**20:.0f} MB, more than runner.memory_limit {limits.memory}"
            )
        elif child.state in ("starting", "made"):
            if limits.start is not None and now - child.began > limits.start:
                child.end("timeout", f"its start took more than {limits.start:g} s")
        elif self.pulse is not None:
            step, reset = self.pulse[child.index].tolist()
            if limits.reset is not None and now - reset > limits.reset:
                child.end("timeout", f"a reset took more than runner.reset_timeout {limits.reset:g} s")
            # A reset inside a step has a limit of its own.
            elif limits.step is not None and now - step > limits.step and reset == float("inf"):
                child.end("timeout", f"a step took more than runner.step_timeout {limits.step:g} s")
