"""The worker processes of a sweep, one per slot, each with a short queue so that none waits for the sampler."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from hotloop.errors import TrainingError
from hotloop.runners.worker_process import describe_exit
from hotloop.sweeps.definition import Definition
from hotloop.sweeps.tasks import Result, Task

# Tasks that a worker has, the running one included. Where states travel it is one: a worker that sends a large one
# must not be sent another.
_DEPTH: Final = 2


class Finished(NamedTuple):
    """A task that ended, with its result and final state."""

    task: Task
    result: Result
    state: bytes | None


class Lost(NamedTuple):
    """A task whose worker died."""

    task: Task
    state: bytes | None
    steps: int
    """Progress that was last reported; -1 if it had not begun."""
    why: str


class Moved(NamedTuple):
    """Progress of a running task."""

    task: Task
    steps: int


class _Worker:
    def __init__(self, definition: Definition, home: Path, store: str | Path | None) -> None:
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        package = Path(__file__).parent.parent
        script = package / "sweeps" / "worker.py"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOTLOOP_HOME": str(home)}
        if store is not None:
            environment["HOTLOOP_STORE"] = str(store)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(script), str(package), str(theirs.fileno()), str(life)],
                pass_fds=(theirs.fileno(), life),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        os.close(life)
        self.connection: Connection[Any, Any] = Connection(ours.detach())
        self.queue: deque[tuple[Task, bytes | None]] = deque()
        self.steps = 0
        paths = [path or str(Path.cwd()) for path in sys.path]
        order = {"definition": definition.to_json(), "paths": paths, "home": str(home)}
        self.connection.send_bytes(json.dumps(order).encode())

    def send(self, task: Task, state: bytes | None) -> None:
        self.queue.append((task, state))
        try:
            self.connection.send_bytes(json.dumps({**task.to_json(), "has_state": state is not None}).encode())
            if state is not None:
                self.connection.send_bytes(state)
        except OSError:
            pass  # it died, which the end of the connection will tell

    def stop(self) -> None:
        self.connection.close()
        # The pipe's end kills the worker and all that it started.
        os.close(self._life)
        self.process.wait()


class Workers:
    """The workers of a sweep; while entered, their processes live."""

    def __init__(
        self, definition: Definition, slots: int, home: Path, store: str | Path | None = None, *, with_states: bool
    ) -> None:
        self._definition, self._home, self._store = definition, home, store
        self._slots = slots
        self._depth = 1 if with_states else _DEPTH
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    @property
    def has_room(self) -> bool:
        """Whether a task would be taken."""
        return len(self._workers) < self._slots or any(len(each.queue) < self._depth for each in self._workers)

    @property
    def is_idle(self) -> bool:
        """Whether no task is under way."""
        return not any(each.queue for each in self._workers)

    def submit(self, task: Task, state: bytes | None = None) -> None:
        """Give a task to the worker with the shortest queue; workers start when they are needed."""
        free = min(self._workers, key=lambda each: len(each.queue), default=None)
        if (free is None or free.queue) and len(self._workers) < self._slots:
            free = _Worker(self._definition, self._home, self._store)
            self._workers.append(free)
        assert free is not None
        free.send(task, state)

    def events(self, timeout: float | None) -> Iterator[Finished | Lost | Moved]:
        """Wait for messages of workers, and yield what they mean; a dead worker's later tasks go to another one."""
        ready = wait([each.connection for each in self._workers], timeout)
        for worker in [each for each in self._workers if each.connection in ready]:
            try:
                message = json.loads(worker.connection.recv_bytes())
                if "fatal" in message:
                    raise TrainingError(f"a worker of the sweep cannot start: {message['fatal']}")
                if "progress" in message:
                    worker.steps = message["progress"]
                    yield Moved(worker.queue[0][0], worker.steps)
                    continue
                state = worker.connection.recv_bytes() if message.pop("has_state") else None
            except (EOFError, OSError):
                yield from self._replace(worker)
                continue
            worker.steps = 0
            yield Finished(worker.queue.popleft()[0], message, state)

    def _replace(self, worker: _Worker) -> Iterator[Lost]:
        self._workers.remove(worker)
        worker.stop()
        how = describe_exit(worker.process.returncode)
        for number, (task, state) in enumerate(worker.queue):
            yield Lost(task, state, worker.steps if number == 0 else -1, f"its worker {how}")
