"""Stores of both kinds, and a home of its own for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hotloop.orchestrator.queue import Queue
from tests.tracking.conftest import server, store

__all__ = ["server", "store"]


@pytest.fixture
def queue(store: str, tmp_path: Path) -> Iterator[Queue]:
    """The queue of a fresh store, of either kind."""
    from hotloop.tracking.database import Database
    from hotloop.tracking.store_url import find_store_url

    url = find_store_url(store, tmp_path)
    assert url is not None
    Database(url).close()
    with Queue(store, tmp_path) as found:
        yield found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without jobs, which is the default."""
    path = tmp_path / "home"
    monkeypatch.setenv("HOTLOOP_HOME", str(path))
    monkeypatch.delenv("HOTLOOP_STORE", raising=False)
    return path
