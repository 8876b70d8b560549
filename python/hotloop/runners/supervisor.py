"""The thread that watches worker processes: it notices which ones died, hang or take too much memory.

It only notices and kills; the pool replaces and reports lost workers, in the caller's thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hotloop.runners.health import Limits
    from hotloop.runners.worker_process import WorkerProcess

_INTERVAL: Final = 0.1
_ENDING: Final = 0.5
_STARTING: Final = ("starting", "made")


class Supervisor:
    """Watches processes from a thread of its own, and calls `alarm` when the pool should look.

    Args:
        limits: Of each worker.
        alarm: Called from the thread.
        pulse: Per worker, the times at which its running step and its running reset began.
    """

    def __init__(self, limits: Limits, alarm: Callable[[], None], pulse: NDArray[Any]) -> None:
        self._limits = limits
        self._alarm = alarm
        self._pulse = pulse
        self._processes: tuple[WorkerProcess, ...] = ()
        self._wake_read, self._wake_write = os.pipe()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="hotloop-supervisor", daemon=True)
        self._thread.start()

    def watch(self, processes: tuple[WorkerProcess, ...]) -> None:
        """Replace the processes to watch."""
        self._processes = processes
        os.write(self._wake_write, b"x")

    def close(self) -> None:
        """End the thread."""
        self._stop = True
        os.write(self._wake_write, b"x")
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _run(self) -> None:
        reported: set[int] = set()
        while not self._stop:
            poll = select.poll()
            poll.register(self._wake_read, select.POLLIN)
            watched = [
                process for process in self._processes if process.state != "lost" and process.pid not in reported
            ]
            handles: list[int] = []
            for process in watched:
                with contextlib.suppress(OSError):
                    handles.append(os.pidfd_open(process.pid))
                    poll.register(handles[-1], select.POLLIN)
                with contextlib.suppress(OSError):
                    # Of a ready process, only that it has closed its end.
                    poll.register(process.connection.fileno(), select.POLLIN if process.state in _STARTING else 0)
            happened = poll.poll(_INTERVAL * 1000)
            for handle in handles:
                os.close(handle)
            if any(fd == self._wake_read for fd, _ in happened):
                os.read(self._wake_read, 4096)
            closed = {fd for fd, events in happened if events & select.POLLHUP}
            for process in watched:
                if process.poll() is None and process.state == "ready" and process.connection.fileno() in closed:
                    self._end_disconnected(process)
                if process.poll() is not None:
                    reported.add(process.pid)
                    self._alarm()
                else:
                    self._enforce_limits(process)
            if happened and any(process.state in _STARTING and process.pid not in reported for process in watched):
                self._alarm()
                # The pool reads the messages; without a pause this loop would find them again at once.
                time.sleep(0.002)

    @staticmethod
    def _end_disconnected(process: WorkerProcess) -> None:
        """Kill a process that has closed its connection, unless it is about to end by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.process.wait(_ENDING)
            return
        process.kill(
            "exit",
            "its worker closed its connection to the runner (an env that closes files, or replaces its process?)",
        )

    def _enforce_limits(self, process: WorkerProcess) -> None:
        limits, now = self._limits, time.monotonic()
        if process.kill_reason is not None:
            return
        if limits.memory is not None and (held := process.resident()) > limits.memory * 2**20:
            process.kill("memory", f"it held {held / 2**20:.0f} MB, more than runner.memory_limit {limits.memory}")
        elif process.state in _STARTING:
            if limits.start is not None and now - process.started > limits.start:
                process.kill("timeout", f"its start took more than {limits.start:g} s")
        else:
            step, reset = self._pulse[process.index].tolist()
            if limits.reset is not None and now - reset > limits.reset:
                process.kill("timeout", f"a reset took more than runner.reset_timeout {limits.reset:g} s")
            # A reset inside a step has a limit of its own.
            elif limits.step is not None and now - step > limits.step and reset == float("inf"):
                process.kill("timeout", f"a step took more than runner.step_timeout {limits.step:g} s")
