"""Import of code that a config names as `package.module:name`; loading a checkpoint's arrays never does this."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from hotloop.errors import ConfigError


def named_code(name: str, key: str) -> Any:
    """Import `package.module:name`, also from the working directory; `key` is the config key that names it."""
    module, colon, attribute = name.partition(":")
    if not module or not colon or not attribute:
        raise ConfigError(f"{key} is {name!r}: expected 'package.module:name'")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{key} is {name!r}: no module {error.name!r} was found, also not in {folder}") from None
    except Exception as error:
        raise ConfigError(f"{key} is {name!r}: importing it failed: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{key} is {name!r}: the module {module!r} has no {attribute!r}")
        found = getattr(found, part)
    return found
