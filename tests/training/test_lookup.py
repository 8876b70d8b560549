"""A run is found by path, name, the beginning of it, its id, or `last`, from Python as from the command line."""

from pathlib import Path

import pytest

import hotloop
from hotloop.errors import TrainingError
from hotloop.tracking import journal
from hotloop.training.lookup import find_run

SMALL = {"runner.num_envs": 8, "ppo.horizon": 16, "train.evaluate_episodes": 0, "train.until": None}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for name in ("first", "second-a", "second-b"):
        hotloop.train("cartpole", steps=256, config=SMALL, home=folder, name=name, progress=False)
    return folder


def test_names_beginnings_ids_and_last(home: Path) -> None:
    assert find_run("first", home) == find_run("fi", home) == home / "runs" / "first"
    assert find_run("last", home).name == "second-b"
    start = journal.find_start(home / "runs" / "first" / journal.NAME)
    assert start is not None
    assert find_run(start["id"][:8], home).name == "first"


def test_what_is_not_clear_is_an_error(home: Path) -> None:
    with pytest.raises(TrainingError, match="'second' is ambiguous: second-a, second-b"):
        find_run("second", home)
    for text in ("", "nothing", "nul\0l", "x" * 5000):
        with pytest.raises(TrainingError, match="there is no run"):
            find_run(text, home)


def test_load_and_train_take_names(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hotloop.load("last", home=home).path.parents[1].name == "second-b"
    monkeypatch.setenv("HOTLOOP_HOME", str(home))
    assert hotloop.load("fir").path.parents[1].name == "first"
    assert hotloop.train(resume="fir", steps=512, progress=False).name == "first"
    begun = hotloop.train("cartpole", steps=256, config=SMALL, init_from="last", name="third", progress=False)
    assert (begun.path / "first.safetensors").exists()


def test_a_home_called_runs_has_no_second_runs_folder(tmp_path: Path) -> None:
    home = tmp_path / "runs"
    run = hotloop.train("cartpole", steps=256, config=SMALL, home=home, name="mine", progress=False)
    assert run.path == home / "mine"
    assert (home / "hotloop.db").exists()
    assert hotloop.load("last", home=home).path.parents[1] == run.path
    assert hotloop.train(resume="mine", steps=512, home=home, progress=False).path == run.path
    assert hotloop.train(resume=run.path, steps=768, progress=False).path == run.path
    assert not (tmp_path / "hotloop.db").exists()


def test_a_home_called_runs_from_before_keeps_its_layout(tmp_path: Path) -> None:
    (tmp_path / "runs" / "runs").mkdir(parents=True)
    run = hotloop.train("cartpole", steps=256, config=SMALL, home=tmp_path / "runs", name="mine", progress=False)
    assert run.path == tmp_path / "runs" / "runs" / "mine"


def test_a_folder_without_a_config_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    with pytest.raises(TrainingError, match=r"the run 'mine' is damaged: .*mine has no readable config\.yaml"):
        find_run("mine", tmp_path)
    with pytest.raises(TrainingError, match=r"the folder has no config\.yaml"):
        find_run(tmp_path / "runs" / "mine", tmp_path)
