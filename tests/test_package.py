"""The package as people import it."""

import sys
from pathlib import Path

import pytest

import hotloop
from tests.commands import run


def python(code: str, cwd: Path) -> str:
    return run(sys.executable, "-W", "error", "-c", code, cwd=cwd)


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = python("import hotloop, sys; hotloop.list_envs(); print(*sys.modules)", tmp_path).split()
    assert "hotloop" in loaded
    assert not {"numpy", "gymnasium", "torch"} & set(loaded)


def test_names_come_on_first_use() -> None:
    assert {"make_vec", "list_envs", "__version__"} <= set(dir(hotloop))
    assert callable(hotloop.make_vec)
    with pytest.raises(AttributeError, match="has no attribute 'make_veq'"):
        hotloop.make_veq  # noqa: B018


def test_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert hotloop.__version__ == version("hotloop")
