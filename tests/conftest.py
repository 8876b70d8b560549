"""Shared fixtures: the repository's root, and Hypothesis without deadlines."""

from pathlib import Path

import pytest
from hypothesis import settings

# Imported only where MettaGrid is installed, and without doctests to be looked for.
collect_ignore = ["envs/mettagrid_env.py"]

# No test asserts a time: a busy machine is not a bug.
settings.register_profile("hotloop", deadline=None)
settings.load_profile("hotloop")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree under test."""
    return Path(__file__).resolve().parent.parent
