"""The repository sets itself up: its targets, its pins and its version say the same thing everywhere."""

import os
import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.commands import run


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def pins(repository: Path) -> dict[str, str]:
    lines = (repository / "requirements-dev.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(each.name): str(each.specifier) for each in requirements}


def declared_requirements(project: dict[str, Any]) -> Iterator[Requirement]:
    """Return the requirements of the core and of every extra."""
    table = project["project"]
    for group in (table["dependencies"], *table["optional-dependencies"].values()):
        yield from map(Requirement, group)


def fresh_set_up(repository: Path, target: str, environment: Path) -> str:
    """The commands that make would run for a target where no environment exists yet."""
    return run("make", "--dry-run", f"VENV={environment}", target, cwd=repository)


def test_make_alone_prints_a_line_of_help_for_every_target(repository: Path) -> None:
    phony = re.search(r"^\.PHONY: (.+)$", (repository / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    explained = re.findall(r"^  make (\S+) +\S", run("make", cwd=repository), re.MULTILINE)
    assert sorted(explained) == sorted(phony.group(1).split())


def test_demo_installs_neither_torch_nor_peers(repository: Path, tmp_path: Path) -> None:
    commands = fresh_set_up(repository, "demo", tmp_path / "venv")
    assert "maturin develop --release" in commands
    assert "--constraint requirements-dev.txt maturin" in commands
    assert "--requirement" not in commands


def test_test_installs_every_pin_and_runs_every_check(repository: Path, tmp_path: Path) -> None:
    commands = fresh_set_up(repository, "test", tmp_path / "venv")
    for part in (
        "pip install --quiet --requirement requirements-dev.txt",
        "ruff check",
        "ruff format --check",
        "mypy python tests",
        "cargo fmt --all --check",
        "cargo clippy --workspace --all-targets",
        "cargo test --workspace",
        "pytest",
    ):
        assert part in commands, part


@pytest.mark.parametrize("changed", ["crates/hotloop-core/src/lib.rs", "Cargo.lock", "pyproject.toml"])
def test_a_changed_source_rebuilds_the_core(repository: Path, changed: str) -> None:
    assert "maturin develop" in run("make", "--dry-run", f"--what-if={changed}", "build", cwd=repository)


def test_changed_pins_are_installed_again(repository: Path) -> None:
    commands = run("make", "--dry-run", "--what-if=requirements-dev.txt", "test-python", cwd=repository)
    assert "--requirement requirements-dev.txt" in commands


def test_system_deps_and_tests_are_what_continuous_integration_runs(repository: Path) -> None:
    script = repository / ".ci" / "run"
    assert os.access(script, os.X_OK)
    run("bash", "-n", script, cwd=repository)
    assert re.findall(r"make [\w-]+", script.read_text())[0] == "make system-deps"
    assert script.read_text().rstrip().endswith("make test")
    assert "run: .ci/run" in (repository / ".github" / "workflows" / "ci.yml").read_text()


def test_pins_are_exact(pins: dict[str, str]) -> None:
    assert all(re.fullmatch(r"==[\w.]+", pin) for pin in pins.values()), pins


def test_pins_lie_in_the_ranges_that_users_get(project: dict[str, Any], pins: dict[str, str]) -> None:
    for requirement in declared_requirements(project):
        pin = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin.removeprefix("==")), requirement


def test_the_version_stands_once(repository: Path, project: dict[str, Any]) -> None:
    workspace = tomllib.loads((repository / "Cargo.toml").read_text())["workspace"]
    assert metadata.version("hotloop") == workspace["package"]["version"]
    assert "version" in project["project"]["dynamic"]


def test_the_licence_is_mit_everywhere(repository: Path, project: dict[str, Any]) -> None:
    workspace = tomllib.loads((repository / "Cargo.toml").read_text())["workspace"]
    assert (repository / "LICENSE").read_text().startswith("MIT License")
    assert project["project"]["license"] == workspace["package"]["license"] == "MIT"
