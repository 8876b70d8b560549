"""The examples run as their first lines say. `sb3_cartpole.py` is run by `tests/envs/test_sb3.py`."""

import sys
from pathlib import Path

from tests.commands import run


def test_learning_curves_are_drawn_and_not_trained_twice(repository: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curves.png"
    command = ["examples/learning_curves.py", "cartpole", "--home", str(tmp_path), "--png", str(picture)]
    command += ["--seeds", "1", "--steps", "12000"]
    result = run(sys.executable, *command, cwd=repository)
    assert result.startswith("cartpole: bands overlap over ")
    assert picture.read_bytes().startswith(b"\x89PNG")
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("metrics.jsonl"))
    assert len(before) == 2
    assert run(sys.executable, *command, cwd=repository) == result
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("metrics.jsonl")) == before


def test_quickstart(repository: Path) -> None:
    result = run(sys.executable, "-W", "error", "examples/quickstart.py", cwd=repository)
    assert "episodes finished, mean return 4" in result
    assert "repeated exactly: True" in result


def test_every_sweep_file_can_be_searched(repository: Path) -> None:
    from hotloop.sweeps.definition import define

    files = sorted((repository / "examples" / "sweeps").glob("*.yaml"))
    assert files
    for file in files:
        definition = define(file=file)
        assert f"examples/sweeps/{file.name}" in file.read_text()
        assert definition.trials > 1
