"""Addresses of stores: how they are written and chosen, and how they are shown without their passwords."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from hotloop.errors import StoreError

# Whatever stands between the first colon after the user and the last @, even if it should have been escaped.
_PASSWORD: Final = re.compile(r"(//[^/@:?]*):(.*)@")
_PASSWORD_OPTION: Final = re.compile(r"([?&](?:ssl)?password=)([^&]*)")
NONE: Final = "none"
FILE: Final = "hotloop.db"


@dataclass(frozen=True)
class StoreUrl:
    """A store's address: a file of SQLite, or the URL of a PostgreSQL database."""

    file: Path | None = None
    url: str | None = None
    is_default: bool = False
    """Whether it is the home's own store, which is created when it is needed."""

    @property
    def shown(self) -> str:
        """The address without a password."""
        if self.file is not None:
            return str(self.file)
        assert self.url is not None
        return _PASSWORD.sub(r"\1@", _PASSWORD_OPTION.sub(r"\1***", self.url))

    def without_password(self, text: str) -> str:
        """A text, such as a driver's message, in which the password does not occur."""
        found = [match[2] for pattern in (_PASSWORD, _PASSWORD_OPTION) if (match := pattern.search(self.url or ""))]
        for password in found:
            # A driver may take a password that was not escaped apart, and report a piece of it.
            pieces = {piece for piece in re.split(r"[@/:?#]", password) if len(piece) > 1}
            for written in sorted({password, unquote(password), *pieces} - {""}, key=len, reverse=True):
                text = text.replace(written, "***")
        return text

    def is_of(self, start: Mapping[str, Any]) -> bool:
        """Whether a run with this `start` event belongs here; a home that was moved takes its own store along."""
        return start.get("store") == self.shown or (self.is_default and bool(start.get("in_home")))

    def is_home_of(self, folder: Path) -> bool:
        """Whether a run's folder lies in the home whose own store this is."""
        if not self.is_default or self.file is None:
            return False
        return folder.absolute().parent == runs_folder(self.file.parent)


def runs_folder(home: Path) -> Path:
    """Return the folder of a home that holds the runs: `runs`, or the home itself if it has that name already."""
    inner = home / "runs"
    # Earlier versions always had a folder below; a run may have this name, too.
    nested = inner.is_dir() and not (inner / "config.yaml").exists()
    return inner if home.name != "runs" or nested else home


def find_store_url(store: str | Path | None, home: Path) -> StoreUrl | None:
    """The store to use: the given one, else `HOTLOOP_STORE`, else the home's own; `None` if that is `none`."""
    given = str(store) if store is not None else os.environ.get("HOTLOOP_STORE") or ""
    if given == NONE:
        return None
    if not given:
        return StoreUrl(file=home.absolute() / FILE, is_default=True)
    scheme, colon, rest = given.partition("://")
    if not colon:
        return StoreUrl(file=Path(given).absolute())
    if scheme == "sqlite":
        if not rest.startswith("/") or len(rest) < 2:
            raise StoreError(f"the store {given!r} names no file: expected sqlite:///PATH")
        return StoreUrl(file=Path(rest[1:]).absolute())
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        if find_spec("psycopg") is None:
            raise StoreError(
                "the store is on PostgreSQL, but psycopg is not installed: pip install 'hotloop[postgres]'"
            )
        return StoreUrl(url=f"postgresql://{rest}")
    raise StoreError(
        f"the store {scheme}://... is of no known kind: expected sqlite:///PATH, postgresql://HOST/DATABASE, a path, "
        f"or {NONE}"
    )
