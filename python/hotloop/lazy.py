"""Names of a package that are imported on first use: `import hotloop` takes milliseconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module's `__getattr__` that imports each of these names from its home.

    Args:
        package: The module's `__name__`.
        homes: The module that has each name.
    """

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value: object = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
