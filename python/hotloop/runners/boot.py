"""Entry point of a worker process: `python -P boot.py PACKAGE` and the numbers of four inherited files.

Runs in any interpreter that has NumPy: the package is loaded from its folder, and nothing else is put on the path.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import mmap
import os
import signal
import sys
import threading
import traceback
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
    """Kill this process, and those that its envs started, when the other end of the pipe is closed."""
    os.read(life, 1)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Make the envs, send their spec, and serve commands until `stop`."""
    package, *files = sys.argv[1:]
    socket, memory, black_box, life = map(int, files)
    threading.Thread(target=end_with_parent, args=(life,), daemon=True).start()
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
        make = env_factory(order["source"])
        envs = [make() for _ in range(order["envs"])]
        connection.send(("made", envs[0].spec))
        serve(connection, memory, make, envs, order["worker"], connection.recv())
    except EOFError:
        os._exit(0)
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name in ("numpy", "gymnasium"):
            message = f"{sys.executable} has no {error.name}, which workers need: install it there"
        connection.send(("failed", message, traceback.format_exc()))
        os._exit(1)


def env_factory(source: Any) -> Any:
    """Return a function that makes an env, from its name and options or from a pickled callable."""
    from hotloop.envs.adapters.factory import adapt, open_env

    kind, what, options = source
    if kind == "name":
        return lambda: open_env(what, options)
    import pickle

    make = pickle.loads(what)
    return lambda: adapt(make(**options))


def serve(connection: Connection[Any, Any], fd: int, make: Any, envs: Any, index: int, description: Any) -> None:
    """Serve commands until `stop`."""
    from hotloop import _core
    from hotloop.runners.layout import CALL, Layout
    from hotloop.runners.worker import Worker

    plan, spec, infos, autoreset, spin, configured = description
    layout = Layout(plan, spec, infos)
    memory = mmap.mmap(fd, layout.size)
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
