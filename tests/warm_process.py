"""Processes for tests to kill, forked from one interpreter that has imported what they need.

Each is a process of its own, as if started afresh, but without the second that its imports would take.
"""

import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

from hotloop.__main__ import main

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        *("hotloop.cli", "hotloop.config", "hotloop.training.trainer", "hotloop.training.session"),
        *("hotloop.training.tabular_session", "hotloop.tracking.store", "hotloop.runners.processes"),
        *("rich.live", "safetensors.numpy", "yaml", "gymnasium"),
        *(["hotloop.ppo.torch.learner"] if importlib.util.find_spec("torch") else []),
    ]
)


def start(function: Callable[..., None], *arguments: Any, **environment: str) -> BaseProcess:
    """Start a process that calls a function of a module, with these environment variables besides."""
    process = _context.Process(target=_call, args=(function, arguments, environment))
    process.start()
    return process


def finish(process: BaseProcess) -> int:
    """Wait for the end of a process; return its exit code, negative for a signal."""
    process.join()
    code = process.exitcode
    assert code is not None
    process.close()
    return code


def run(function: Callable[..., None], *arguments: Any, **environment: str) -> int:
    """Call a function in a process of its own; return the exit code."""
    return finish(start(function, *arguments, **environment))


def command(*arguments: str) -> None:
    """Call `hotloop ARGUMENTS`; what it prints is dropped."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = ["hotloop", *arguments]
    main()


def _call(function: Callable[..., None], arguments: tuple[Any, ...], environment: dict[str, str]) -> None:
    os.environ.update(environment)
    function(*arguments)
