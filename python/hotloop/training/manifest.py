"""Facts that every checkpoint's manifest states, and the check that a checkpoint belongs to the run that opens it."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hotloop import _core
from hotloop.errors import UnusableCheckpointError

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.envs.spec import EnvSpec
    from hotloop.training.checkpoint import Checkpoint
    from hotloop.training.counters import Counters


def identity(config: Config) -> dict[str, Any]:
    """Return the entries that are equal in all checkpoints of a run, whatever its algorithm."""
    return {"env": config.env.name, "options": config.env.options, "seed": config.train.seed}


def manifest(
    config: Config, counters: Counters, spec: EnvSpec, *, learner: str, threads: int, date: str
) -> dict[str, Any]:
    """Return the entries that every algorithm's manifest has."""
    import numpy as np

    return {
        **identity(config),
        **spec.to_json(),
        "steps": counters.steps,
        "iterations": counters.iterations,
        "attempt": counters.attempt,
        "learner": learner,
        "threads": threads,
        "isa": _core.isa(),
        "versions": {"hotloop": _core.__version__, "python": platform.python_version(), "numpy": np.__version__},
        "date": date,
    }


def check_ownership(checkpoint: Checkpoint, expected: Mapping[str, Any]) -> None:
    """Raise an `UnusableCheckpointError` unless the manifest has these entries."""
    for key, value in expected.items():
        found = checkpoint.manifest.get(key)
        if found != value:
            raise UnusableCheckpointError(
                f"the checkpoint {checkpoint.path} belongs to another run: its {key} is {found!r}, not {value!r}"
            )


@contextlib.contextmanager
def check_fit(checkpoint: Checkpoint) -> Iterator[None]:
    """Raise errors of restoring a checkpoint as `UnusableCheckpointError`."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UnusableCheckpointError(f"the checkpoint {checkpoint.path} does not fit this run: {error}") from None
