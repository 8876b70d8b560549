"""Stores to test with: a file, and a PostgreSQL server where its programs are installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tracking.servers import Server, is_installed, serving


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests that do not stop it."""
    if not is_installed():
        pytest.skip("PostgreSQL's programs are not installed; 'make system-deps' brings them")
    with serving() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a fresh store, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    started: Server = request.getfixturevalue("server")
    return started.new_database()
