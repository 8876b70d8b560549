"""Entry point of a worker process: `python -P boot.py PACKAGE` and the numbers of four inherited files.

Runs in any interpreter that has NumPy: the package is loaded from its folder, and nothing else is put on the path.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import importlib.util
import mmap
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def load_package(folder: str) -> None:
    """Make `import hotloop` find this folder, whatever else is installed."""
    spec = importlib.util.spec_from_file_location(
        "hotloop", Path(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hotloop"] = module
    spec.loader.exec_module(module)


def end_with_parent(life: int) -> None:
    """Kill this process, and those that its envs started, when the other end of the pipe is closed.

    The kernel does so, because a thread cannot run while native code holds the interpreter's lock; a thread does it
    where the kernel cannot, or an env has closed the files that the kernel watches.
    """
    owners = (os.getpid(), -os.getpgid(0)) if sys.platform == "linux" else ()
    for owner in owners:
        # Opened again: what is inherited is shared by all workers, and has one owner.
        pipe = os.open(f"/proc/self/fd/{life}", os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(pipe, fcntl.F_SETOWN, owner)
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=_wait_for_end, args=(life,), daemon=True).start()


def _wait_for_end(life: int) -> None:
    os.read(life, 1)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Make the envs, send their spec, and serve commands until `stop`."""
    package, *files = sys.argv[1:]
    socket, memory, black_box, life = map(int, files)
    for file in (socket, memory, black_box, life):
        # A program that an env starts in place of this process must not keep the connection open.
        os.set_inheritable(file, False)
    end_with_parent(life)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner handles Ctrl-C
    faulthandler.enable(black_box)
    faulthandler.register(signal.SIGUSR1, black_box)
    connection: Connection[Any, Any] = Connection(socket)
    order = connection.recv()
    try:
        sys.path += [path for path in order["paths"] if path not in sys.path]
        if order["cores"]:
            os.sched_setaffinity(0, order["cores"])
        load_package(package)
        make = env_factory(order["source"], quiet=order["worker"] > 0, drop_stderr=True)
        envs = [make() for _ in range(order["envs"])]
        connection.send(("made", envs[0].spec))
        serve(connection, memory, make, envs, order["worker"], connection.recv())
    except EOFError:
        os._exit(0)
    except BaseException as error:
        connection.send(("failed", *explain(error, package, full=order["debug"])))
        os._exit(1)


def explain(error: BaseException, package: str, *, full: bool) -> tuple[str, str]:
    """Return an error's message, and its traceback if that helps: from the first frame of the user's code on."""
    is_missing = isinstance(error, ModuleNotFoundError) or type(error).__name__ == "MissingPackageError"
    module = getattr(error, "name", None) if is_missing else None
    if module in ("numpy", "gymnasium"):
        return f"{sys.executable} has no {module}, which workers need: install it there", ""
    own = type(error).__module__ == "hotloop.errors"
    message = str(error) if own else f"{type(error).__name__}: {error}"
    if full:
        return message, traceback.format_exc()
    libraries = (package, sys.prefix, sys.base_prefix, "<frozen")
    frames = traceback.extract_tb(error.__traceback__)
    of_user = [not frame.filename.startswith(libraries) and "site-packages" not in frame.filename for frame in frames]
    if own or not any(of_user):
        return message, ""
    listed = traceback.StackSummary.from_list(frames[of_user.index(True) :]).format()
    return message, "".join(["Traceback (most recent call last):\n", *listed, message])


def env_factory(source: Any, *, quiet: bool = False, drop_stderr: bool = False) -> Any:
    """Return a function that makes an env, from its name and options or from a pickled callable.

    Warnings that making an env causes are shown once per runner, by the first env of a worker that is not quiet. With
    `drop_stderr` this includes the ones that native code prints by itself, as MuJoCo does: only for a process that has
    standard error to itself.
    """
    import pickle

    from hotloop.envs.adapters.factory import adapt, open_env

    kind, what, options, wrap = source
    called = None if kind == "name" else pickle.loads(what)
    shown = quiet

    def make() -> Any:
        nonlocal shown
        with contextlib.ExitStack() as stack:
            if shown:
                stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                if drop_stderr:
                    stack.enter_context(_stderr_dropped())
            shown = True
            return open_env(what, options, wrap) if called is None else adapt(called(**options), wrap)

    return make


@contextlib.contextmanager
def _stderr_dropped() -> Iterator[None]:
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def serve(connection: Connection[Any, Any], fd: int, make: Any, envs: Any, index: int, description: Any) -> None:
    """Serve commands until `stop`."""
    from hotloop import _core
    from hotloop.runners.layout import CALL, Layout
    from hotloop.runners.worker import Worker

    shared, autoreset, spin, configured = description
    layout = Layout(*shared)
    plan = layout.plan
    memory = mmap.mmap(fd, layout.size)
    if hasattr(mmap, "MADV_DONTFORK"):
        # An env may fork, and the child return from its step: it must not write to the rows, too.
        memory.madvise(mmap.MADV_DONTFORK)
    views = layout.views(memory)
    signals = _core.Signals(views["signals"], len(plan.workers), len(plan.groups))

    def report(failure: Any) -> None:
        connection.send(("fault", failure.env, failure.what, failure.traceback))

    worker = Worker(index, layout, memory, make, autoreset, envs, report)
    worker.configure(configured)
    connection.send(("ready",))
    groups = worker.groups
    while True:
        request = signals.next(index, groups, 3600.0, spin)
        if request is None:
            continue
        group, command = request
        if command == CALL:
            method, arguments = connection.recv()
            if method == "stop":
                worker.close()
                os._exit(0)
            connection.send(("reply", getattr(worker, method)(*arguments)))
        else:
            worker.serve(group, command)
        signals.done(group)


if __name__ == "__main__":
    main()
