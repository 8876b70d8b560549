"""The page on architecture names files that exist."""

import re
from pathlib import Path


def test_every_file_that_the_page_names_exists(repository: Path) -> None:
    page = (repository / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:crates|dashboard|python|docs|tests)/[\w./-]+)`", page))
    assert len(named) > 30
    assert sorted(name for name in named if not (repository / name).exists()) == []


def test_contributors_are_led_to_it(repository: Path) -> None:
    assert "docs/architecture.md" in (repository / "CONTRIBUTING.md").read_text()
