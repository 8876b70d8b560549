"""Hotloop: reinforcement learning at the speed of the machine.

    envs = hotloop.make_vec("cartpole", num_envs=1024)
    obs, info = envs.reset(seed=0)
    obs, reward, terminated, truncated, info = envs.step(actions)

Importing this package loads neither NumPy nor Gymnasium; functions that need them are imported on first use.
"""

from typing import TYPE_CHECKING

from hotloop._core import __version__
from hotloop.envs.registration import register_when_gymnasium_is_imported
from hotloop.envs.registry import list_envs
from hotloop.lazy import lazy_names

if TYPE_CHECKING:
    from hotloop.envs.compiled import compiled
    from hotloop.loading import load
    from hotloop.make import make_vec
    from hotloop.orchestrator.api import submit
    from hotloop.sweeps.api import sweep
    from hotloop.training.api import train

__all__ = ["__version__", "compiled", "list_envs", "load", "make_vec", "submit", "sweep", "train"]

register_when_gymnasium_is_imported()


# Functions that are imported on first use, and their modules.
_LAZY = {
    "compiled": "hotloop.envs.compiled",
    "load": "hotloop.loading",
    "make_vec": "hotloop.make",
    "submit": "hotloop.orchestrator.api",
    "sweep": "hotloop.sweeps.api",
    "train": "hotloop.training.api",
}
__getattr__ = lazy_names(__name__, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
