"""Envs from users' files: `native:PATH` and `compiled:FILE.py:NAME`. Loading one executes its code.

A name is made whole when a person says it, so that a run keeps one that means the same everywhere; code is loaded when
a person names the env, or goes on with a run that is trusted, and never when arrays are read.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from hotloop import _core
from hotloop.envs.object_envs import is_local

if TYPE_CHECKING:
    from hotloop.envs.compiled import CompiledEnv
    from hotloop.envs.scene import TextRenderer

NATIVE: Final = "native:"
COMPILED: Final = "compiled:"


def brings_code(env: str) -> bool:
    """Return whether an env of that name comes from a user's file and runs on the threads of the native runner."""
    return env.startswith((NATIVE, COMPILED))


def names_code(env: str) -> bool:
    """Return whether making an env of that name executes code that the name refers to, unlike native envs and ids."""
    library, colon, rest = env.partition(":")
    return bool(colon) and (library != "gymnasium" or ":" in rest)


def whole_name(env: str) -> str:
    """Return the name with an absolute path, and with `compiled:` if it refers to such a class; executes nothing."""
    if env.startswith(NATIVE):
        return NATIVE + str(Path(env.removeprefix(NATIVE)).expanduser().absolute())
    source, colon, name = env.removeprefix(COMPILED).rpartition(":")
    if not colon or not source:
        return env
    if source.endswith(".py"):
        path = Path(source).expanduser().resolve()
        if env.startswith(COMPILED) or _declares(path, name):
            return f"{COMPILED}{path}:{name}"
    elif not env.startswith(COMPILED) and _declares(_module_file(source), name):
        return f"{COMPILED}{env}"
    return env


def load_env(env: str) -> str:
    """Load and register an env from a user's file, unless that was done; return its full name."""
    name = whole_name(env)
    if not brings_code(name) or _core.has_env(name):
        from hotloop.envs import object_envs

        if object_envs.is_local(name):
            object_envs.find(name)
        return name
    if name.startswith(NATIVE):
        from hotloop.envs.libraries import open_library

        open_library(name, Path(name.removeprefix(NATIVE)))
    else:
        _imported(name).load(name)
    return name


def name_of(env: object) -> str:
    """Return the name of what a program passes as an env: the one by which a module has it, or one of `object_envs`."""
    module = sys.modules.get("hotloop.envs.compiled")
    if module is not None and isinstance(env, module.CompiledEnv):
        return cast("CompiledEnv", env).load()
    from hotloop.envs import object_envs
    from hotloop.envs.adapters.factory import factory

    name = f"{getattr(env, '__module__', None)}:{getattr(env, '__qualname__', None)}"
    try:
        found = None if object_envs.is_local(name) else factory(name)
    except (ImportError, AttributeError, TypeError, ValueError):
        found = None
    return name if found is env and env is not None else object_envs.register(env)


def _imported(name: str) -> CompiledEnv:
    """Return the compiled env of a full name."""
    from hotloop.code import named_code
    from hotloop.envs.compiled import CompiledEnv
    from hotloop.errors import ConfigError

    source, _, attribute = name.removeprefix(COMPILED).rpartition(":")
    if source.endswith(".py"):
        found = getattr(_executed(Path(source)), attribute, None)
    else:
        found = named_code(f"{source}:{attribute}", "env.name")
    if not isinstance(found, CompiledEnv):
        what = "nothing of that name" if found is None else f"{found!r}"
        raise ConfigError(f"{source} has {what} for {attribute!r}: expected a class with @hotloop.compiled")
    return found


def _executed(path: Path) -> Any:
    """Return the module in a file; its folder is searched for imports, as for a script."""
    import importlib.util

    from hotloop.errors import ConfigError

    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _module_file(module: str) -> Path | None:
    """Return the path of a module's source without importing anything."""
    from importlib.machinery import PathFinder

    if not all(part.isidentifier() for part in module.split(".")):
        return None
    folders: list[str] | None = [*sys.path, str(Path.cwd())]
    spec = None
    for part in module.split("."):
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or ())
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _declares(path: Path | None, name: str) -> bool:
    """Return whether a source has a class of that name that is decorated with `compiled(...)`."""
    if path is None or path.suffix != ".py" or not path.is_file():
        return False
    try:
        source = path.read_text()
        tree = ast.parse(source) if "compiled" in source else ast.parse("")
    except (OSError, SyntaxError, ValueError):
        return False
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    calls = (decorator for found in classes for decorator in found.decorator_list if isinstance(decorator, ast.Call))
    return any(ast.unparse(call.func).rpartition(".")[2] == "compiled" for call in calls)


def short_name(env: str) -> str:
    """Return the short name for people: that of the file, the class or the function.

    >>> short_name("__main__:make.<locals>.<lambda>"), short_name("__main__:Maze()"), short_name("gymnasium:Ant-v5")
    ('lambda', 'Maze', 'gymnasium:Ant-v5')
    """
    if env.startswith(NATIVE):
        return Path(env.removeprefix(NATIVE)).stem
    if is_local(env):
        return env.rpartition(":")[2].removesuffix("()").rpartition(".")[2].strip("<>")
    return env.rpartition(":")[2] if brings_code(env) else env


def renderer(env: str) -> TextRenderer | None:
    """Return the renderer of an env from a user's file, if it has one."""
    if env.startswith(COMPILED):
        from hotloop.envs.compiled import loaded

        found = loaded(env)
        return found if found is not None and found.shows_itself else None
    from hotloop.envs import libraries

    return libraries.renderer(env)
