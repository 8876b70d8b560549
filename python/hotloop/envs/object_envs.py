"""Envs that a program passes as objects: classes, functions, lambdas and instances that no module has by name.

A run keeps the name of its env. These have one, too, but it leads to the object only in a program that has passed it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from hotloop.errors import ConfigError

_factories: Final[dict[str, Callable[..., Any]]] = {}


def register(env: object) -> str:
    """Return a name for an env factory or an env, which is found by it in this process from now on."""
    factory = as_factory(env)
    kind = env if callable(env) and hasattr(env, "__qualname__") else type(env)
    instance = "" if kind is env else "()"
    name = f"{getattr(kind, '__module__', '__main__')}:{getattr(kind, '__qualname__', type(env).__name__)}{instance}"
    _factories[name] = factory
    return name


def as_factory(env: object) -> Callable[..., Any]:
    """Return a callable that makes envs: the object itself, or one that copies an env."""
    if is_env(env):
        return partial(_copy, _pickled(env))
    if callable(env):
        return env
    raise TypeError(f"env is {env!r}: expected a name, an env, or a callable that returns one")


def is_env(env: object) -> bool:
    """Return whether an object is an env, not something that makes one."""
    return not isinstance(env, type) and callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))


def _pickled(env: object) -> bytes:
    import cloudpickle  # type: ignore[import-untyped]

    try:
        pickled: bytes = cloudpickle.dumps(env)
    except Exception as error:
        raise TypeError(
            f"env is {env!r}, which cannot be copied to worker processes ({type(error).__name__}: {error}): pass a "
            "function that makes it instead, such as lambda: MyEnv()"
        ) from error
    return pickled


def _copy(pickled: bytes, **options: Any) -> Any:
    import pickle

    if options:
        raise ConfigError(
            f"the env was passed as an object, which takes no options ({', '.join(options)}): pass its class or a "
            "function instead"
        )
    return pickle.loads(pickled)


def is_local(name: str) -> bool:
    """Return whether a name is of an env that only the program which defines it can make."""
    return name.startswith("__main__:") or name.endswith("()") or "<" in name


def find(name: str) -> Callable[..., Any]:
    """Return the factory of that name; a `ConfigError` says what to do if this program has not passed it."""
    if name not in _factories:
        called = name.partition(":")[2].removesuffix("()")
        raise ConfigError(
            f"{name} is defined in a script, a notebook or a function, not in a module: run the code that defines it, "
            f"then pass it again, as in hotloop.train({called}, resume=RUN); or put it into a module"
        )
    return _factories[name]
