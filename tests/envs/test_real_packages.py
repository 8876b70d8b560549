"""Adapters against the real packages: PettingZoo's envs, RLGym 2's API, MettaGrid; workers in another interpreter."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.bench.actions import legal_actions
from hotloop.errors import EnvError

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def play(runner: Any, steps: int) -> list[Any]:
    """Return the results of steps with random legal actions."""
    rng = np.random.default_rng(0)
    _, info = runner.reset(seed=0)
    results = []
    for _ in range(steps):
        mask = info.get("action_mask", np.ones((runner.num_envs, runner.single_action_space.n), np.int8))
        *outcome, info = runner.step(legal_actions(runner.single_action_space, mask, rng))
        results.append((*outcome, info))
    return results


def make(name: str, num_workers: int = 0, **keywords: Any) -> Any:
    return hotloop.make_vec(name, 2, num_workers=num_workers, autoreset_mode="same_step", **keywords)


@pytest.mark.parametrize("game", ["tictactoe_v3", "connect_four_v3"])
def test_board_games_of_pettingzoo_are_played_in_turn_with_masks(game: str) -> None:
    pytest.importorskip("pettingzoo")
    with make(f"pettingzoo:classic.{game}", num_workers=1) as runner:
        assert (runner.seats, runner.masked) == (2, True)
        results = play(runner, 60)
        result = runner.episodes()
        # One wins what the other loses, or nobody wins.
        assert result.count >= 2
        assert all(abs(step[1][:2].sum()) == 0 for step in results)
        assert all(step[4]["valid"][:2].sum() == 1 for step in results)
        assert any(step[2].any() for step in results)
        assert runner.faults().count == 0


def test_parallel_envs_of_pettingzoo_move_at_once() -> None:
    pytest.importorskip("pettingzoo")
    with make("pettingzoo:classic.rps_v2", options={"max_cycles": 5}) as runner:
        results = play(runner, 10)
        assert all(step[4]["valid"].all() for step in results)
        assert [bool(step[3].all()) for step in results] == [False, False, False, False, True] * 2
        assert runner.episodes().length_mean == 5


def test_rlgym_envs_are_rows() -> None:
    pytest.importorskip("rlgym")
    with make("rlgym:tests.envs.rlgym_env:make") as runner:
        assert runner.seats == 2
        results = play(runner, 12)
        assert [bool(step[2].all()) for step in results].count(True) == 3
        assert runner.episodes().length_mean == 4
        again = play(runner, 12)
        for one, other in zip(results, again, strict=True):
            np.testing.assert_array_equal(one[0], other[0])


def interpreter(folder: Path, what: str, *packages: str) -> tuple[Path, Path]:
    """An interpreter with these packages alone, and where they lie; skips if the index cannot be reached."""
    venv.create(folder, with_pip=False, symlinks=True)
    place = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:", "--no-compile"]
    where = ["--retries", "0", "--timeout", "10", "--target", str(place)]
    done = subprocess.run([*install, *where, *packages], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{what} cannot be had here: {done.stderr.strip().splitlines()[-1]}")
    return folder / "bin" / "python", place


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without this package, with a NumPy of its own."""
    packages = ("numpy==1.26.4", "gymnasium", "typing_extensions", "cloudpickle", "farama-notifications")
    return interpreter(tmp_path_factory.mktemp("interpreter"), "NumPy 1.26", *packages)[0]


def test_workers_of_another_interpreter_have_a_numpy_of_their_own(other_python: Path) -> None:
    with make("tests.envs.versions:Versions", num_workers=1, worker_python=other_python) as runner:
        obs, _ = runner.reset(seed=0)
        assert obs[0].tolist() == [1.0, 26.0]
        runner.step([0, 1])
        assert runner.faults().count == 0


def test_an_interpreter_without_the_needed_packages_is_an_error(tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=False, symlinks=True)
    with pytest.raises(EnvError, match=f"{tmp_path}/bin/python has no (numpy|gymnasium), which workers need"):
        make("tests.envs.versions:Versions", num_workers=1, worker_python=tmp_path / "bin" / "python")
    with pytest.raises(FileNotFoundError, match="worker_python"):
        make("gymnasium:CartPole-v1", num_workers=1, worker_python=tmp_path / "absent")


# Its libraries ask for an older python-dateutil than others get, so it has a folder of its own here.
METTAGRID = (
    *("mettagrid==0.26.22", "boto3==1.44.0", "botocore==1.44.0", "importnb==2023.11.1", "jmespath==1.1.0"),
    *("python-dateutil==2.9.0.post0", "s3transfer==0.19.3", "six==1.17.0"),
)


def test_mettagrid_in_an_interpreter_of_its_own(tmp_path: Path, repository: Path) -> None:
    python, packages = interpreter(tmp_path, "MettaGrid", *METTAGRID)
    # The rest is what this interpreter has.
    (packages / "around.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")

    # The plugin of importnb, which MettaGrid brings, is none for today's pytest.
    plugins = ["-p", "no:importnb", "-p", "no:cacheprovider"]
    tests = [str(python), "-m", "pytest", "-q", *plugins, "tests/envs/test_mettagrid.py"]
    tested = subprocess.run(tests, cwd=repository, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "5 passed" in tested.stdout

    config = {"runner.num_envs": 8, "runner.num_workers": 1, "runner.worker_python": str(python)}
    name = "mettagrid:tests.envs.mettagrid_env:config"
    run = hotloop.train(name, steps=3072, seed=0, config=config, home=tmp_path / "home")
    assert run.steps >= 3072
    assert run.return_mean > 0
