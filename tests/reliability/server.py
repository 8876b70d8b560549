"""Many commands from one warm interpreter: a server that forks for each, so that imports are paid for once.

A forked command is a process of its own that ends as `hotloop` does, with its exit code, output and any traceback. It
may use so much memory and no more: a damaged file must not take the machine down.
"""

import atexit
import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.reliability.commands import Ended, environment

_MOST_MEMORY = 6 << 30
# Modules that commands import when they need them.
_USED = (
    *("hotloop.cli", "hotloop.config", "hotloop.export.onnx", "hotloop.loading", "hotloop.tracking.store"),
    *("hotloop.training.trainer", "hotloop.training.verification", "hotloop.ppo", "hotloop.rendering", "onnx"),
    *("onnxruntime", "pydantic.type_adapter", "rich.live", "rich.progress", "safetensors.numpy", "typer", "yaml"),
)


class CommandServer:
    """Runs commands one after the other; one server per thread."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.server"],
            env=environment(folder),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, home: Path, *arguments: str, timeout: float = 60.0) -> Ended:
        """Run `hotloop ARGUMENTS`, or `load PATH` for `hotloop.load`, to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": arguments, "home": str(home), "timeout": timeout}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Ended(["hotloop", *arguments], **json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class CommandServers:
    """A server for each thread that runs commands."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._all: list[CommandServer] = []

    def run(self, home: Path, *arguments: str, timeout: float = 60.0) -> Ended:
        """Run `hotloop ARGUMENTS` on this thread's server."""
        if not hasattr(self._local, "server"):
            # Far above the homes of commands, and importable from: a case may put modules there.
            self._local.server = CommandServer(home.parents[1])
            self._all.append(self._local.server)
        server: CommandServer = self._local.server
        return server.run(home, *arguments, timeout=timeout)

    def close(self) -> None:
        """End all servers."""
        for server in self._all:
            server.close()
        self._all.clear()
        self._local = threading.local()


def _serve() -> dict[str, Any]:
    """Fork for each request; returns in the forked process, with its request."""
    answers = os.fdopen(os.dup(1), "w")
    while line := _read_line():
        request: dict[str, Any] = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                _become(request, out.fileno(), err.fileno())
                return request
            code, timed_out = _wait(child, request["timeout"])
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        answer = {"code": code, "out": texts[0], "err": texts[1], "timed_out": timed_out}
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)


def _read_line() -> bytes:
    """Read a request byte by byte: nothing may wait in a buffer that forked processes share."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


def _wait(child: int, timeout: float) -> tuple[int, bool]:
    until = time.monotonic() + timeout
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), False
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGKILL, True
        time.sleep(0.002)


def _become(request: dict[str, Any], out: int, err: int) -> None:
    """Turn a fork of the server into the process of a command."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    os.environ["HOTLOOP_HOME"] = request["home"]
    os.chdir(Path(request["home"]).parent)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    sys.argv = ["hotloop", *request["arguments"]]


def _load(path: str) -> None:
    """Print the weights that `hotloop.load` acts with, as one line; its own errors are one line, too."""
    import hashlib

    import hotloop
    from hotloop.errors import TrainingError

    try:
        policy = hotloop.load(path)
    except TrainingError as error:
        sys.exit(f"hotloop: {error}")
    learner: Any = policy.learner
    arrays = learner.arrays()
    sums = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in sorted(arrays.items())}
    print(json.dumps({"env": policy.env, "options": policy.options, "steps": policy.steps, "weights": sums}))


def _main() -> None:
    for name in _USED:
        importlib.import_module(name)
    import hotloop.__main__

    # Forked processes share everything up to here for as long as nobody writes to it.
    gc.freeze()
    command, *rest = _serve()["arguments"]
    try:
        _load(*rest) if command == "load" else hotloop.__main__.main()
    except SystemExit as end:
        _exit(end.code)
    _exit(0)


def _exit(code: object) -> None:
    """End as the interpreter does, but leave the memory to the system: freeing it takes longer than most commands."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else code is not None)


if __name__ == "__main__":
    _main()
