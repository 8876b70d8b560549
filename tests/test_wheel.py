"""The wheel that `make wheel` builds works in an environment that has nothing but it and its requirements."""

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.commands import run

pytestmark = pytest.mark.slow

STEP_A_FEW_TIMES = """
import sys
import gymnasium
import hotloop

assert hotloop.__file__.startswith(sys.prefix), hotloop.__file__
for make_vec, name in ((hotloop.make_vec, "cartpole"), (gymnasium.make_vec, "hotloop/CartPole-v1")):
    envs = make_vec(name, num_envs=8)
    envs.reset(seed=0)
    for _ in range(100):
        obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
    assert obs.shape == (8, 4), obs.shape
    envs.close()
heavy = {"torch", "stable_baselines3", "envpool"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    run("make", "wheel", f"DIST={directory}", cwd=repository)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and its run-time requirements only; returns its folder of commands."""
    environment = tmp_path_factory.mktemp("empty") / "venv"
    run(sys.executable, "-m", "venv", environment, cwd=environment.parent)
    python = environment / "bin" / "python"
    pins = repository / "requirements-dev.txt"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", pins, wheel, cwd=environment.parent)
    return environment / "bin"


def test_wheel_fits_every_python_from_3_11(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name


def test_wheel_ships_types_header_licence_and_one_native_module(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"hotloop/py.typed", "hotloop/_core.pyi", "hotloop/include/hotloop.h"} <= set(names)
    assert [name for name in names if name.endswith(".so")] == ["hotloop/_core.abi3.so"]
    assert any(name.endswith("/licenses/LICENSE") for name in names)


@pytest.mark.skipif(shutil.which("npm") is None, reason="without Node the dashboard is not built")
def test_wheel_ships_the_dashboard(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"hotloop/server/static/index.html", "hotloop/server/static/report.html"} <= set(names)
    assert any(name.startswith("hotloop/server/static/assets/index-") for name in names)


def test_installed_package_steps_environments(installed: Path, tmp_path: Path) -> None:
    run(installed / "python", "-c", STEP_A_FEW_TIMES, cwd=tmp_path)


def test_installed_command_lists_environments(installed: Path, tmp_path: Path) -> None:
    assert "cartpole" in run(installed / "hotloop", "envs", cwd=tmp_path)
