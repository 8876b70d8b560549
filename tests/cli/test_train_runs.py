"""`hotloop eval` and `hotloop verify`, and how runs are named on the command line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotloop.cli.progress import PartsProgress
from hotloop.cli.verify import _watching
from hotloop.text import short
from hotloop.training.callbacks import ProgressReport
from hotloop.training.checkpoint import checkpoint_paths
from tests.cli.command import complaint, hotloop, hotloop_json


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three runs, made once."""
    path = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLOOP_HOME", str(path))
        hotloop_json("train", "cartpole", "--name", "solved")
        hotloop_json("train", "cartpole", "--name", "poor-first", "--steps", "2048", "train.until=null")
        hotloop_json("train", "taxi", "--name", "poor-second", "--steps", "8192", "train.until=null")
        yield path


def test_eval_gives_a_mean_and_where_the_true_one_lies(home: Path) -> None:
    (end,) = hotloop_json("eval", "solved", "--episodes", "50")
    assert {"mean", "low", "high", "episodes"} <= end.keys()
    assert end["episodes"] == 50
    assert end["low"] <= end["mean"] <= end["high"]
    assert end["mean"] >= 475


def test_eval_as_text(home: Path) -> None:
    done = hotloop("eval", "solved", "--episodes", "20")
    assert done.stdout.startswith("cartpole at step ")
    assert "over 20 episodes (95 %: " in done.stdout


def test_eval_can_demand_a_return(home: Path) -> None:
    assert hotloop("eval", "solved", "--at-least", "475").returncode == 0
    short_of = hotloop("eval", "poor-first", "--at-least", "475")
    assert short_of.returncode == 1
    assert "below 475" in short_of.stderr


def test_drawn_actions_do_worse_than_the_most_probable(home: Path) -> None:
    (best,) = hotloop_json("eval", "poor-second", "--episodes", "100")
    (drawn,) = hotloop_json("eval", "poor-second", "--episodes", "100", "--stochastic")
    assert best["mean"] != drawn["mean"]


@pytest.mark.parametrize(
    ("text", "run"), [("solved", "solved"), ("so", "solved"), ("poor-f", "poor-first"), ("last", "poor-second")]
)
def test_a_run_is_found_by_name_beginning_and_last(home: Path, text: str, run: str) -> None:
    (end,) = hotloop_json("eval", text, "--episodes", "1")
    assert end["run"] == run


def test_a_run_or_checkpoint_is_found_by_path(home: Path) -> None:
    run = home / "runs" / "solved"
    (end,) = hotloop_json("eval", str(run), "--episodes", "1")
    assert end["run"] == "solved"
    (checkpoint,) = (path.parent for path in run.glob("checkpoints/*/manifest.json"))
    (end,) = hotloop_json("eval", str(checkpoint), "--episodes", "1")
    assert end["path"] == str(checkpoint)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("poor", "'poor' is ambiguous: poor-first, poor-second; type more of the name"),
        ("slved", "there is no run 'slved'; did you mean 'solved'?"),
        ("nothing-like-it", "there is no run 'nothing-like-it' in "),
    ],
)
@pytest.mark.parametrize("command", ["eval", "verify"])
def test_a_run_that_is_not_clear_is_refused(home: Path, command: str, text: str, what: str) -> None:
    assert what in complaint(command, text)


def test_counts_have_suffixes_everywhere(home: Path) -> None:
    (end,) = hotloop_json("eval", "solved", "--episodes", "1.5k")
    assert end["episodes"] == 1500
    assert "'many' is not a number" in complaint("eval", "solved", "--episodes", "many")
    assert "not a number" in complaint("play", "solved", "--steps", "x")
    assert hotloop("runs", "list", "--limit", "1e2").returncode == 0


def test_eval_refuses_numbers_that_make_no_sense(home: Path) -> None:
    assert "--episodes is 0: expected 1 to 10000000" in complaint("eval", "solved", "--episodes", "0")
    assert "--episodes is 1000000000: expected 1 to" in complaint("eval", "solved", "--episodes", "1e9")
    assert "--seed is -1: expected" in complaint("eval", "solved", "--seed", "-1")


def test_verify_repeats_a_run_bit_for_bit(home: Path) -> None:
    *_, end = hotloop_json("verify", "solved")
    assert end["same"]
    assert end["records"] > 0
    done = hotloop("verify", "solved")
    assert done.returncode == 0
    assert done.stdout.startswith("same: ")


def test_verify_shows_how_far_it_is(home: Path) -> None:
    reports = []

    class Bar(PartsProgress):
        def at(self, part: str, what: str, share: float) -> None:
            reports.append((part, what, share))

    run = home / "runs" / "solved"
    (watching,) = _watching(run, Bar(1), as_json=False)
    steps = int(checkpoint_paths(run / "checkpoints")[-1].name)
    watching.progress(ProgressReport(steps // 2, 1, 1, 1.0, 1.0, 0.0))
    assert reports == [("repeating", f"step {short(steps // 2)} of {short(steps)}", 0.5)]
    assert _watching(home, Bar(1), as_json=False) == []


def test_verify_finds_a_run_that_is_not_what_it_says(home: Path) -> None:
    config = home / "runs" / "poor-first" / "config.yaml"
    config.write_text(config.read_text().replace("gamma: 0.99", "gamma: 0.98"))
    done = hotloop("verify", "poor-first", "--json")
    assert done.returncode == 1
    end = json.loads(done.stdout)
    assert not end["same"]
    assert not end["same_policy"]
    assert end["differences"]
