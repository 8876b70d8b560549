"""`hotloop train --seeds`: a run per seed, and what they have in common."""

from pathlib import Path

import pytest

from tests.cli.command import complaint, hotloop, hotloop_json


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path))
    return tmp_path


def test_every_seed_gets_a_run_and_the_summary_their_mean(home: Path) -> None:
    events = hotloop_json("train", "cartpole", "--seeds", "0-1,5", "--steps", "4k", "train.until=null", "--name", "it")
    runs = [event for event in events if event["event"] == "run"]
    end = events[-1]
    assert end["seeds"] == [0, 1, 5]
    assert end["runs"] == ["it-0", "it-1", "it-5"] == [run["run"] for run in runs]
    assert end["returns"] == [run["evaluation"]["mean"] for run in runs]
    assert end["mean"] == pytest.approx(sum(end["returns"]) / 3)
    assert end["low"] < end["mean"] < end["high"]
    assert {path.name for path in (home / "runs").iterdir()} == {"it-0", "it-1", "it-5"}


def test_people_get_a_line_per_seed() -> None:
    done = hotloop("train", "cartpole", "--seeds", "3,4", "--steps", "4096", "train.until=null")
    *_, first, second, mean = done.stdout.splitlines()
    assert first.startswith("seed 3: ")
    assert second.startswith("seed 4: ")
    assert mean.startswith("mean of 2 seeds: ")
    assert "95 % interval over seeds" in mean


def test_seeds_that_missed_the_goal_are_one_message() -> None:
    done = hotloop("train", "cartpole", "--seeds", "0-2", "--steps", "2048", "--name", "it")
    (line,) = [line for line in done.stderr.splitlines() if "was confirmed" in line]
    assert "before a return of 475 was confirmed in 3 of 3 runs" in line
    assert line.endswith("hotloop train --resume it-0 --steps N")


@pytest.mark.parametrize("seeds", ["", "a", "4-2", "1,1", "0-100000", "-3"])
def test_bad_seeds_are_rejected(seeds: str) -> None:
    assert "--seeds is" in complaint("train", "cartpole", f"--seeds={seeds}")


def test_seeds_start_new_runs_only() -> None:
    assert "--seeds starts new runs" in complaint("train", "cartpole", "--seeds", "0-1", "--seed", "3")


@pytest.mark.parametrize("steps", ["4.5", "many", "1x"])
def test_counts_that_are_none_are_rejected(steps: str) -> None:
    assert repr(steps) in complaint("train", "cartpole", "--steps", steps)
