"""Settings of the native tabular learners, and the check that a table fits into memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hotloop import _core
from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.config.tabular.spaces import Spaces


def threads(config: Config) -> int:
    """Return the number of learning threads in this process."""
    if config.tabular.runtime == "one":
        return 1
    if config.tabular.runtime == "mpi":
        return config.runner.num_threads or 1
    return config.runner.num_threads or _core.usable_cores()


def settings(config: Config, *, attempt: int = 0, first_worker: int = 0) -> dict[str, Any]:
    """Return the settings of `_core.TabularLearner` and `_core.ExternalTabularLearner`."""
    tabular = config.tabular
    return {
        "algorithm": config.train.algorithm,
        "gamma": tabular.gamma,
        "learning_rate": _schedule(config, "learning_rate"),
        "exploration": _schedule(config, "exploration"),
        "batch": tabular.batch_size,
        "replay": tabular.replay_size,
        "replays": tabular.replay_updates if tabular.replay_size else 0,
        "table": "sparse" if tabular.table == "sparse" else "dense",
        "storage": tabular.storage,
        "initial_value": tabular.initial_value,
        "iteration": tabular.iteration,
        "threads": threads(config),
        "private": tabular.runtime == "private",
        "exchange": tabular.runtime == "mpi",
        "seed": config.train.seed,
        "attempt": attempt,
        "first_worker": first_worker,
    }


def _schedule(config: Config, key: str) -> tuple[str, float, float, float]:
    kind, start, floor, scale = (getattr(config.tabular, key + end) for end in ("_schedule", "", "_floor", "_scale"))
    if scale is None:
        # A linear schedule ends with the run; `checks` requires a scale for the others.
        scale = config.train.steps or 1
    return kind, start, floor, float(scale)


def check_table(config: Config, found: Spaces) -> None:
    """Raise a `ConfigError` for values out of range and for a dense table that does not fit into memory."""
    try:
        needed = _core.table_bytes(settings(config), found.states, found.actions)
    except ValueError as error:
        raise ConfigError(f"tabular.{error}") from None
    if config.tabular.table == "sparse":
        return
    free = free_memory()
    if needed > free:
        raise ConfigError(
            f"a dense table of {found.states} states x {found.actions} actions needs {_size(needed)}, but only "
            f"{_size(free)} are free: set tabular.table=sparse, which stores visited states only"
            + ("" if config.tabular.storage == "f16" else ", or tabular.storage=f16, which halves it")
        )


def free_memory() -> int:
    """Return the bytes of memory that can be allocated without swapping."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _size(number: int) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            return f"{number:.3g} {unit}" if unit != "bytes" else f"{number} bytes"
        number = number / 1000  # type: ignore[assignment]
    raise AssertionError
