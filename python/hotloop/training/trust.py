"""Whose code is imported: that of runs which this user's own training recorded, and of others only when told so.

A run that names code leaves a mark outside its folder, so that a folder from elsewhere cannot bring one along.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.errors import TrainingError

if TYPE_CHECKING:
    from hotloop.config import Config


def named_in(config: Config) -> list[str]:
    """The code that a config names."""
    from hotloop.envs.loader import names_code

    named = [config.policy.module, *config.torch.losses, config.runner.worker_python]
    named.append(config.env.name if names_code(config.env.name) else None)
    return [name for name in named if name is not None]


def remember(run: Path, names: Sequence[str]) -> None:
    """Marks a run that begins here as one whose code may be imported again."""
    for name in names:
        mark = _mark(run, name)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def must_be_trusted(run: Path, names: Sequence[str], *, trust: bool) -> None:
    """Raises if a run names code, was not made here, and nobody said that its code is trusted."""
    foreign = [] if trust else [name for name in names if not _mark(run, name).exists()]
    if foreign:
        raise TrainingError(
            f"{run} names code to be loaded ({', '.join(foreign)}), and was not made here: "
            "look at that code, then say --trust (trust=True)"
        )


def load_trusted_env(run: Path, env: str, *, trust: bool) -> None:
    """Makes the env of a run known, if it brings its code; one that names any must be trusted."""
    from hotloop.envs.loader import load_env, names_code

    if names_code(env):
        must_be_trusted(run, [env], trust=trust)
        load_env(env)


def _mark(run: Path, name: str) -> Path:
    from hotloop.training.runs import home

    key = hashlib.sha256(f"{run.resolve()}\n{name}".encode()).hexdigest()
    return home() / "trusted" / key
