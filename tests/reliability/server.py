"""Commands from warm interpreters, one per thread, each command with limits of time and memory.

A command may use so much memory and no more: a damaged file must not take the machine down.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from tests.fork_server import USUAL, ForkServer
from tests.reliability.commands import Ended, environment

_MOST_MEMORY = 6 << 30
_USED = (*USUAL, "hotloop.export.onnx", "onnx", "onnxruntime")


class CommandServers:
    """A server for each thread that runs commands."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._all: list[ForkServer] = []

    def run(self, home: Path, *arguments: str, timeout: float = 60.0) -> Ended:
        """Run `hotloop ARGUMENTS`, or `load PATH` for `hotloop.load`, on this thread's server."""
        if not hasattr(self._local, "server"):
            # Far above the homes of commands, and importable from: a case may put modules there.
            folder = home.parents[1]
            self._local.server = ForkServer(environment(folder), folder, _USED)
            self._all.append(self._local.server)
        server: ForkServer = self._local.server
        ended = server.run(
            *arguments,
            environment=environment(home),
            cwd=home.parent,
            entry="tests.reliability.server:load" if arguments[0] == "load" else "hotloop.__main__:main",
            timeout=timeout,
            memory=_MOST_MEMORY,
        )
        return Ended(["hotloop", *arguments], *ended)

    def close(self) -> None:
        """End all servers."""
        for server in self._all:
            server.close()
        self._all.clear()
        self._local = threading.local()


def load() -> None:
    """Print the weights that `hotloop.load` acts with, as one line; its own errors are one line, too."""
    import hashlib

    import hotloop
    from hotloop.errors import TrainingError

    _, _, path = sys.argv
    try:
        policy = hotloop.load(path)
    except TrainingError as error:
        sys.exit(f"hotloop: {error}")
    learner: Any = policy.learner
    arrays = learner.arrays()
    sums = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in sorted(arrays.items())}
    print(json.dumps({"env": policy.env, "options": policy.options, "steps": policy.steps, "weights": sums}))
