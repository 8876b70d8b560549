"""Code that a config names, as `package.module:name`: found when a run needs it, never when arrays are loaded."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from hotloop.config.errors import ConfigError


def named_code(name: str, key: str) -> Any:
    """What `package.module:name` stands for; `key` is the config's key that names it. The working folder counts too."""
    module, colon, attribute = name.partition(":")
    if not module or not colon or not attribute:
        raise ConfigError(f"{key} is {name!r}: expected 'package.module:name'")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{key} is {name!r}: there is no module {error.name!r} here ({folder})") from None
    except Exception as error:
        raise ConfigError(f"{key} is {name!r}: importing it failed: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{key} is {name!r}: the module {module!r} has no {attribute!r}")
        found = getattr(found, part)
    return found
