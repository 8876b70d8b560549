"""Small sweeps for tests: trials of a few milliseconds, and results without what depends on the machine."""

from pathlib import Path
from typing import Any

from hotloop.sweeps.api import open_sweep
from hotloop.sweeps.display import Silent
from hotloop.sweeps.sweep import Sweep, run_sweep

RATE = {"ppo.learning_rate": "log(1e-3, 1e-2)"}
SMALL = {"train.steps": 4096, "train.evaluate_episodes": 8}
QUICK = {"confirm": {"top": 1, "seeds": 2}, "keep": 0}
# Fields of a line that differ between machines and moments.
_OWN = ("seconds", "cpu", "memory", "run")


def new_sweep(home: Path, name: str = "s", space: Any = RATE, fixed: Any = SMALL, **options: Any) -> Sweep:
    """Return a new sweep over cartpole."""
    return open_sweep("cartpole", space=space, fixed=fixed, options={**QUICK, **options}, name=name, home=home)


def finish(sweep: Sweep, slots: int = 2) -> Sweep:
    """Run a sweep to its end."""
    assert run_sweep(sweep, slots=slots, listener=Silent())
    return sweep


def lines(sweep: Sweep) -> dict[str, Any]:
    """Return all results by task, without what depends on the machine."""
    return {
        task: {key: value for key, value in line.items() if key not in _OWN}
        for task, line in sorted(sweep.folder.results().items())
    }
