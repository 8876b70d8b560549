"""Where a worker process begins: `python -P boot.py PACKAGE` and four files that it inherits, by number.

Runs in any interpreter that has NumPy: the package is loaded from its folder, nothing else of ours is put on the path.
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
    """Makes `import hotloop` find this folder, whatever else is installed."""
    spec = importlib.util.spec_from_file_location(
        "hotloop", Path(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hotloop"] = module
    spec.loader.exec_module(module)


def end_with_parent(life: int) -> None:
    """Ends this process, and those that envs started in it, when the other end of the pipe is gone."""
    os.read(life, 1)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Makes envs, tells what they are, and serves until told to stop."""
    package, *files = sys.argv[1:]
    link, memory, black_box, life = map(int, files)
    threading.Thread(target=end_with_parent, args=(life,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the runner's business
    faulthandler.enable(black_box)
    faulthandler.register(signal.SIGUSR1, black_box)
    connection: Connection[Any, Any] = Connection(link)
    order = connection.recv()
    try:
        sys.path += [path for path in order["paths"] if path not in sys.path]
        if order["cores"]:
            os.sched_setaffinity(0, order["cores"])
        load_package(package)
        make = maker(order["source"])
        envs = [make() for _ in range(order["envs"])]
        connection.send(("made", envs[0].spec))
        told = connection.recv()
        serve(connection, memory, make, envs, order["worker"], told)
    except EOFError:
        os._exit(0)
    except BaseException as error:
        words = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name in ("numpy", "gymnasium"):
            words = f"{sys.executable} has no {error.name}, which workers need: install it there"
        connection.send(("failed", words, traceback.format_exc()))
        os._exit(1)


def maker(source: Any) -> Any:
    """What makes an env: by name and options, or by calling what was sent."""
    from hotloop.envs.adapters.factory import adapt, open_env

    kind, what, options = source
    if kind == "name":
        return lambda: open_env(what, options)
    import pickle

    called = pickle.loads(what)
    return lambda: adapt(called(**options))


def serve(connection: Connection[Any, Any], fd: int, make: Any, envs: Any, index: int, told: Any) -> None:
    """Serves groups until told to stop."""
    from hotloop import _core
    from hotloop.runners.layout import Layout
    from hotloop.runners.worker import TALK, Worker

    plan, spec, infos, autoreset, awake, configured = told
    layout = Layout(plan, spec, infos)
    memory = mmap.mmap(fd, layout.size)
    views = layout.views(memory)
    signals = _core.Signals(views["signals"], len(plan.workers), len(plan.groups))

    def tell(trouble: Any) -> None:
        connection.send(("trouble", trouble.env, trouble.what, trouble.traceback))

    worker = Worker(index, layout, memory, make, autoreset, envs, tell)
    worker.configure(configured)
    connection.send(("ready",))
    groups = worker.groups
    while True:
        asked = signals.next(index, groups, 3600.0, awake)
        if asked is None:
            continue
        group, command = asked
        if command == TALK:
            method, arguments = connection.recv()
            if method == "stop":
                worker.close()
                os._exit(0)
            connection.send(("answer", getattr(worker, method)(*arguments)))
        else:
            worker.serve(group, command)
        signals.done(group)


if __name__ == "__main__":
    main()
