"""Making and adapting envs from names (`gymnasium:CartPole-v1`, `module:factory`) and callables."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hotloop.envs.adapters.packages import missing_package
from hotloop.errors import MissingPackageError, SpaceError, UnknownEnvError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.envs.adapters.rows import Adapted


@dataclass(frozen=True)
class AdapterEntry:
    """A kind of env from another library."""

    prefix: str
    what: str
    """The form of a name after the prefix, and its purpose."""
    module: str | None
    """Packages that must be installed."""
    install: str


ADAPTERS: Final = (
    AdapterEntry("gymnasium:", "ID, or MODULE:ID of a package that registers it", "gymnasium", "gymnasium"),
    AdapterEntry(
        "pettingzoo:",
        "MODULE such as classic.tictactoe_v3 or mpe2.simple_spread_v3; parallel or AEC",
        "pettingzoo",
        "hotloop[pettingzoo]",
    ),
    AdapterEntry("rlgym:", "MODULE:FACTORY that returns an RLGym 2 env", "rlgym", "hotloop[rlgym]"),
    AdapterEntry(
        "mettagrid:", "MODULE:FACTORY that returns a MettaGridConfig, or an env of MettaGrid", "mettagrid", "mettagrid"
    ),
    AdapterEntry("pufferlib:", "MODULE:FACTORY that returns a PufferLib-style vector env", None, ""),
    AdapterEntry(
        "compiled:",
        "FILE.py:NAME or MODULE:NAME of a class with @hotloop.compiled; stepped by native threads",
        "numba",
        "hotloop[compiled]",
    ),
    AdapterEntry("native:", "PATH of a shared library with an env (hotloop.h); stepped by native threads", None, ""),
    AdapterEntry("", "MODULE:FACTORY that returns an env of any of these kinds", None, ""),
)


def adapter_of(name: str) -> AdapterEntry | None:
    """Return the adapter for a name; `None` for names without a colon, which are native."""
    if ":" not in name:
        return None
    return next(entry for entry in ADAPTERS if name.startswith(entry.prefix))


def open_env(name: str, options: Mapping[str, Any], wrap: Mapping[str, Any] | None = None) -> Adapted:
    """Return a new env of that name, with the wrappers that `wrap` asks for."""
    entry = adapter_of(name)
    assert entry is not None, "native envs are not adapted"
    rest = name[len(entry.prefix) :]
    try:
        if entry.module is not None:
            importlib.import_module(entry.module)
        return adapt(_make(entry.prefix, rest, options), wrap or {})
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module == entry.module:
            raise MissingPackageError(name, module, entry.install) from None
        if module == rest.partition(":")[0].partition(".")[0]:
            if entry.prefix == "gymnasium:":
                raise missing_package(name, error) from None
            raise UnknownEnvError(f"there is no module {error.name!r} here, nor in the current folder") from None
        raise missing_package(name, error) from error


def _make(prefix: str, rest: str, options: Mapping[str, Any]) -> Any:
    match prefix:
        case "gymnasium:":
            from hotloop.envs.adapters.gymnasium import make

            return make(rest, options)
        case "pettingzoo:":
            from hotloop.envs.adapters.pettingzoo import make as make_pettingzoo

            return make_pettingzoo(rest, options)
    return factory(rest)(**options)


def factory(path: str) -> Any:
    """Return the object that `module:name` or `module:Class.method` refers to."""
    module, colon, name = path.partition(":")
    if not module or not colon or not name:
        raise ValueError(f"{path!r} does not name a factory: expected MODULE:FACTORY")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AttributeError(f"the module {module} has no {name!r}") from None
    if not callable(found):
        raise TypeError(f"{path} is {found!r}: expected something to call for an env")
    return found


def adapt(env: Any, wrap: Mapping[str, Any] | None = None) -> Adapted:
    """Return the adapted form of an env of any kind, with the wrappers that `wrap` asks for."""
    # PufferLib's wrappers of single envs flatten, as is done here, but hide which episodes were truncated.
    if _has(env, "emulated") and env.emulated and hasattr(env, "env"):
        return adapt(env.env, wrap)
    adapter: Callable[[Any], Adapted] = _adapter_class(env)
    if not wrap:
        return adapter(env)
    from hotloop.envs.adapters.gymnasium import GymnasiumEnv
    from hotloop.envs.adapters.old_gym import modern
    from hotloop.envs.adapters.wrappers import wrapped

    if adapter is GymnasiumEnv:
        return adapter(wrapped(modern(env)[0], wrap))
    if adapter.__module__ == "hotloop.envs.adapters.pettingzoo":
        from hotloop.envs.adapters.agent_wrappers import WrappedAecEnv, WrappedParallelEnv

        return adapter((WrappedAecEnv if _has(env, "agent_iter") else WrappedParallelEnv)(env, wrap))
    names = ", ".join(f"wrap.{name}" for name in wrap)
    raise SpaceError(f"{names}: wrappers are for Gymnasium and PettingZoo envs, not for {type(env).__name__}")


def _adapter_class(env: Any) -> Any:
    """Return the adapter for an env, which is recognised by its attributes."""
    if _has(env, "agent_iter", "possible_agents"):
        from hotloop.envs.adapters.pettingzoo import AecEnv, ParallelEnv

        return AecEnv if _has(env, "agent_iter") else ParallelEnv
    if _has(env, "single_observation_space"):
        from hotloop.envs.adapters.pufferlib import PufferEnv

        return PufferEnv
    if _has(env, "state_mutator", "transition_engine"):
        from hotloop.envs.adapters.rlgym import RLGymEnv

        return RLGymEnv
    if hasattr(env, "observation_space") and hasattr(env, "step"):
        from hotloop.envs.adapters.gymnasium import GymnasiumEnv

        return GymnasiumEnv
    if hasattr(env, "game") and hasattr(env.game, "map_builder"):
        from hotloop.envs.adapters.mettagrid import MettaGridEnv

        return MettaGridEnv
    raise TypeError(
        f"the factory returned {type(env).__name__}: expected a Gymnasium, PettingZoo, RLGym or PufferLib-style env"
    )


def _has(env: Any, *names: str) -> bool:
    """Return whether an object has one of these attributes, without the warnings of older Gymnasium wrappers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return any(hasattr(env, name) for name in names)
