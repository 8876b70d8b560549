"""Many commands from one warm interpreter: a server that forks for each, so that imports are paid for once.

A forked command is a process of its own that ends as `hotloop` does, with its exit code, output and any traceback.

python -m tests.fork_server MODULE ...    import these, then fork for each request on standard input
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# Modules that most commands import when they need them.
USUAL = (
    *("hotloop.cli", "hotloop.config", "hotloop.loading", "hotloop.tracking.store", "hotloop.training.trainer"),
    *("hotloop.training.verification", "hotloop.ppo", "hotloop.rendering", "pydantic.type_adapter", "rich.live"),
    *("rich.progress", "safetensors.numpy", "typer", "yaml"),
)


class Outcome(NamedTuple):
    """The end of a command: by itself, by a signal, or by the time limit."""

    code: int
    out: str
    err: str
    timed_out: bool


class ForkServer:
    """Runs commands one after the other.

    Args:
        environment: Environment of the interpreter; that of a command may differ in what is read after its start.
        cwd: Folder that the interpreter starts in.
        modules: Modules to import first.
    """

    def __init__(self, environment: Mapping[str, str], cwd: Path, modules: Sequence[str] = USUAL) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", *modules],
            env=environment,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Signals that tests send to their own group are not for it.
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        """Whether it takes commands."""
        return self._process.poll() is None

    def run(
        self,
        *arguments: str,
        environment: Mapping[str, str],
        cwd: Path,
        entry: str = "hotloop.__main__:main",
        timeout: float | None = None,
        memory: int | None = None,
    ) -> Outcome:
        """Run `hotloop ARGUMENTS`, or another entry point with them, to its end.

        Args:
            arguments: Arguments of the command.
            environment: Its whole environment.
            cwd: Folder that it starts in, and imports modules from.
            entry: Function to call, as `module:name`.
            timeout: Seconds after which it is killed.
            memory: Most bytes of address space it may have.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "arguments": arguments,
            "environment": dict(environment),
            "cwd": str(cwd),
            "entry": entry,
            "timeout": timeout,
            "memory": memory,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _serve() -> dict[str, Any]:
    """Fork for each request; returns in the forked process, with its request."""
    results = os.fdopen(os.dup(1), "w")
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
        result = {"code": code, "out": texts[0], "err": texts[1], "timed_out": timed_out}
        print(json.dumps(result), file=results, flush=True)
    os._exit(0)


def _read_line() -> bytes:
    """Read a request byte by byte: nothing may wait in a buffer that forked processes share."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


def _wait(child: int, timeout: float | None) -> tuple[int, bool]:
    handle = os.pidfd_open(child)
    try:
        ended, _, _ = select.select([handle], [], [], timeout)
    finally:
        os.close(handle)
    if not ended:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), not ended


def _become(request: dict[str, Any], out: int, err: int) -> None:
    """Turn a fork of the server into the process of a command."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    # As `python -m` has it: modules come from there, and this one's package only if it is there, too.
    sys.path[0] = request["cwd"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    if request["memory"] is not None:
        resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    sys.argv = ["hotloop", *request["arguments"]]


def _main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    import hotloop.__main__  # noqa: F401

    # Forked processes share everything up to here for as long as nobody writes to it.
    gc.freeze()
    module, _, name = _serve()["entry"].partition(":")
    try:
        getattr(importlib.import_module(module), name)()
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
