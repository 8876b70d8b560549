"""Servers to test with: one over a home with real runs for tests that only read, and fresh ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.live_server import Server, serving, train
from tests.tracking.conftest import server as postgresql  # noqa: F401
from tests.tracking.servers import Server as Postgresql


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with three runs: two seeds of one config, and a third that differs from both."""
    home = tmp_path_factory.mktemp("home")
    for seed in ("1", "2"):
        train(home, "cartpole", "--seed", seed, "--name", f"seed-{seed}", "--steps", "200k", "--until", "1000")
    train(home, "cartpole", "ppo.epochs=2", "--seed", "1", "--name", "other", "--steps", "100k", "--until", "1000")
    return home


@pytest.fixture(scope="session")
def served(trained: Path) -> Iterator[Server]:
    """A server over these runs, for tests that change nothing."""
    with serving(trained) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a fresh store, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    started: Postgresql = request.getfixturevalue("postgresql")
    return started.new_database()
