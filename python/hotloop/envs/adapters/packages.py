"""Packages that envs come from: imported by name, and named with their pip command where they are missing."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import MissingPackageError, UnknownEnvError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Packages whose import registers Gymnasium ids, by how the ids begin.
_REGISTERING: Final = {
    "ale_py": ("ALE/",),
    "minigrid": ("MiniGrid-", "BabyAI-"),
    "miniworld": ("MiniWorld-",),
    "gymnasium_robotics": ("Fetch", "Hand", "AntMaze", "PointMaze", "AdroitHand", "FrankaKitchen"),
    "highway_env": ("highway-", "merge-", "roundabout-", "parking-", "intersection-", "racetrack-"),
    "metaworld": ("Meta-World/",),
}
# Names on PyPI that differ from the module's.
_INSTALL: Final = {
    "ale_py": "ale-py",
    "gymnasium_robotics": "gymnasium-robotics",
    "highway_env": "highway-env",
    "multi_agent_ale_py": "multi-agent-ale-py",
    "Box2D": "gymnasium[box2d]",
    "mujoco": "gymnasium[mujoco]",
    "pygame": "pygame-ce",
    "cv2": "opencv-python",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}


def missing_package(env: str, error: ModuleNotFoundError) -> MissingPackageError:
    """Return the error that names the package of a module which was not found."""
    module = (error.name or str(error)).partition(".")[0]
    return MissingPackageError(env, module, _INSTALL.get(module, module))


def registering_package(id: str) -> str | None:
    """Return the module that registers a Gymnasium id, if it is known."""
    return next((module for module, beginnings in _REGISTERING.items() if id.startswith(beginnings)), None)


def gymnasium_spec(id: str) -> Any:
    """Return Gymnasium's spec of `ID` or `MODULE:ID`; the module, or one that is known to register it, is imported."""
    import gymnasium

    module, _, name = id.rpartition(":")
    if not module and name not in gymnasium.registry:
        module = registering_package(name) or ""
    if module:
        importlib.import_module(module)
    if name not in gymnasium.registry:
        raise UnknownEnvError(f"Gymnasium has no env {name!r}{_hint(name, gymnasium.registry)}")
    return gymnasium.spec(name)


def pettingzoo_module(module: str) -> Any:
    """Import `classic.tictactoe_v3` and the like from PettingZoo, or from a package of its own, as `mpe2` is."""
    name = module.removeprefix("pettingzoo.")
    if name.startswith("mpe."):
        name = name.replace("mpe.", "mpe2.", 1)
    if name.partition(".")[0] in _FAMILIES:
        name = f"pettingzoo.{name}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        parent, _, last = name.rpartition(".")
        if error.name != name or not parent:
            raise
        import pkgutil

        found = [each.name for each in pkgutil.iter_modules(importlib.import_module(parent).__path__)]
        known = [each for each in found if each.rpartition("_v")[2].isdecimal()]
        raise UnknownEnvError(f"{parent} has no env {last!r}{_hint(last, known)}") from None


_FAMILIES: Final = ("atari", "butterfly", "classic", "sisl", "utils", "test")


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f". Did you mean {near[0]!r}?" if near else ""
