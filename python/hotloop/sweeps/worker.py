"""A worker process of a sweep: takes tasks from a connection, one after another, and sends results.

Started as `python -P worker.py PACKAGE SOCKET LIFE`, so that it runs whatever the main program is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hotloop.sweeps.definition import Definition
    from hotloop.sweeps.tasks import Task
    from hotloop.sweeps.warm import Warm

# Seconds between reports of progress.
_PACE: Final = 0.2


def main() -> None:
    """Serve tasks until the connection ends."""
    package, socket, life = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.path.insert(0, str(Path(package).parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep handles Ctrl-C
    from hotloop.runners.boot import end_with_parent

    end_with_parent(life)
    connection: Connection[Any, Any] = Connection(socket)
    order = json.loads(connection.recv_bytes())
    sys.path += [path for path in order["paths"] if path not in sys.path]
    try:
        from hotloop.envs.loader import load_env
        from hotloop.sweeps.definition import Definition
        from hotloop.sweeps.tasks import Task
        from hotloop.sweeps.warm import Warm

        load_env(order["definition"]["config"]["env"]["name"])
        definition = Definition.from_json(order["definition"])
    except Exception as error:
        _send(connection, {"fatal": f"{type(error).__name__}: {error}"})
        raise
    warm = Warm()
    while True:
        try:
            message = json.loads(connection.recv_bytes())
            state = connection.recv_bytes() if message.pop("has_state") else None
        except EOFError:
            break
        _serve(connection, Task.from_json(message), definition, warm, state, order["home"])
    warm.shut_down()


def _serve(
    connection: Connection[Any, Any],
    task: Task,
    definition: Definition,
    warm: Warm,
    state: bytes | None,
    home: str,
) -> None:
    from hotloop.sweeps.trial import run_task

    shown = time.monotonic()

    def progress(steps: int) -> None:
        nonlocal shown
        if time.monotonic() - shown >= _PACE:
            shown = time.monotonic()
            _send(connection, {"task": task.id, "progress": steps})

    if task.run is not None:
        from hotloop.sweeps.remake import make_run

        _send(connection, make_run(task, definition, home, progress) | {"has_state": False})
        return
    result, final = run_task(task, definition, warm, progress, state)
    _send(connection, {**result, "has_state": final is not None})
    if final is not None:
        connection.send_bytes(final)


def _send(connection: Connection[Any, Any], message: dict[str, Any]) -> None:
    try:
        connection.send_bytes(json.dumps(message).encode())
    except OSError:
        # The sweep is gone.
        os._exit(0)


if __name__ == "__main__":
    main()
