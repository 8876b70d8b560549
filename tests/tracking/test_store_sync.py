"""Synchronisation of the store with journals: after kills, and with journals that were damaged."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hotloop
from hotloop.tracking import journal
from hotloop.tracking.groups import group_seeds
from hotloop.tracking.queries import page
from hotloop.tracking.store import Store
from hotloop.training import Run

QUICK: dict[str, Any] = {
    "runner.num_envs": 8,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "track.interval": 4,
    "train.until": None,
    "train.evaluate_episodes": 2,
}
KILLED_RUNS = Path(__file__).with_name("killed_runs.py")


def test_a_run_killed_before_any_file_operation_leaves_the_rows_of_an_undisturbed_one(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, KILLED_RUNS, tmp_path, "3"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["differences"] == []
    # Events, checkpoints with their files, and the files of the folder: fewer would mean that kills are not counted.
    assert found["kills"] > 100


UNSAVED = """
import sys
from pathlib import Path
import hotloop
from hotloop import files
place, count = files.place_folder, 0
def refuse(target, content, staging=None, **options):
    global count
    count += target.parent.name == "checkpoints"
    if count == int(sys.argv[2]):
        raise OSError(28, "No space left on device")
    place(target, content, staging, **options)
files.place_folder = refuse
config = {**%r, "train.checkpoint_every": 4, "train.evaluate_every": 4}
try:
    hotloop.train("cartpole", steps=1024, config=config, home=sys.argv[1], name="run")
except hotloop.training.TrainingError as error:
    print(error)
"""


@pytest.mark.parametrize("failing", [1, 2])
def test_a_checkpoint_that_could_not_be_saved_is_not_in_the_store(tmp_path: Path, failing: int) -> None:
    command = [sys.executable, "-c", UNSAVED % QUICK, str(tmp_path), str(failing)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "No space left on device" in done.stdout, done.stderr
    saved = [path.name for path in (tmp_path / "runs" / "run" / "checkpoints").iterdir()]
    for store in (Store(home=tmp_path), rebuilt(tmp_path)):
        with store:
            rows = store.checkpoints(store.find("run"))
            assert [str(row["step"]) for row in rows] == saved
    hotloop.train(resume="run", home=tmp_path)
    with Store(home=tmp_path) as store:
        assert [row["step"] for row in store.checkpoints(store.find("run"))] == [512, 1024]


def test_a_checkpoint_that_could_not_be_replaced_keeps_its_row(tmp_path: Path) -> None:
    run = hotloop.train("cartpole", steps=512, config=QUICK, home=tmp_path, name="run").path
    for event in ({"event": "checkpoint", "path": "checkpoints/512", "is_best": True}, {"event": "retraction"}):
        journal.append_one(run / journal.NAME, {"iterations": 4, "steps": 512, **event})
    with Store(home=tmp_path) as store, rebuilt(tmp_path) as again:
        (row,), (other,) = (each.checkpoints(each.find("run")) for each in (store, again))
        assert (row["step"], row["path"]) == (512, "checkpoints/512")
        assert row == other


def test_a_journal_that_cannot_be_read_for_a_moment_costs_no_run_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = hotloop.train("cartpole", steps=512, config=QUICK, home=tmp_path, name="run").path

    def refuse(path: Path, start: int = 0) -> Iterator[journal.Line]:
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(journal, "read_lines", refuse)
        with pytest.raises(hotloop.training.TrainingError, match=r"metrics\.jsonl: Input/output error"):
            hotloop.train(resume=run, steps=1024)
    hotloop.train(resume=run, steps=1024)
    assert len({event["id"] for event in journal.read_all(run / journal.NAME) if event["event"] == "start"}) == 1
    with Store(home=tmp_path) as store:
        assert len(store.runs()) == 1


def lines_of(run: Run) -> list[bytes]:
    return (run.path / journal.NAME).read_bytes().splitlines(keepends=True)


def rebuilt(home: Path) -> Store:
    """The store, made from the folders."""
    for file in home.glob("hotloop.db*"):
        file.unlink()
    return Store(home=home)


def keys_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every key in a JSON value."""
    for key, entry in value.items() if isinstance(value, dict) else ():
        yield (*path, key)
        yield from keys_of(entry, (*path, key))


def changed(event: dict[str, Any], path: tuple[Any, ...], value: Any) -> bytes:
    copy = json.loads(json.dumps(event))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value is REMOVED:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(copy).encode() + b"\n"


REMOVED = object()
HOSTILE: list[Any] = [REMOVED, None, "text", -1, 10**400, [], {}, [[{}]], float("nan"), True, "\0\ud800\x1b[2J" * 99]


def test_no_value_of_any_key_in_one_journal_hides_another_run(tmp_path: Path) -> None:
    good, bad = (hotloop.train("cartpole", steps=1024, config=QUICK, home=tmp_path, name=n) for n in ("good", "bad"))
    journal.append_one(
        bad.path / journal.NAME,
        {"event": "trouble", "steps": 1024, "what": "x", "kind": "y", "facts": {}, "back_to": None},
    )
    lines = lines_of(bad)
    events = {event["event"]: (i, event) for i, line in enumerate(lines) for event in [json.loads(line)]}
    assert events.keys() == {"start", "iteration", "evaluation", "checkpoint", "end", "trouble"}
    chance = random.Random(0)
    cases = [(i, event, path, value) for i, event in events.values() for path in keys_of(event) for value in HOSTILE]
    for index, event, path, value in chance.sample(cases, 150):
        damaged = [*lines]
        damaged[index] = changed(event, path, value)
        (bad.path / journal.NAME).write_bytes(b"".join(damaged))
        with rebuilt(tmp_path) as store:
            # Everything that the commands do with runs they merely come across.
            assert page(store, where=["ppo.epochs>0", "name=good"], columns=["best", "kl"]).total == 1, (path, value)
            assert store.find(good.name).steps == good.steps
            for run in store.runs():
                assert isinstance(group_seeds([run]), list)
                assert all(store.series(run, name).values.size for name in store.metric_names(run))


def test_damage_is_named_with_run_file_and_line_and_costs_that_line_only(tmp_path: Path) -> None:
    run = hotloop.train("cartpole", steps=2048, config=QUICK, home=tmp_path, name="mine")
    lines = lines_of(run)
    (second,) = [i for i, line in enumerate(lines) if b'"iteration"' in line and b'"steps":1024' in line]
    with rebuilt(tmp_path) as store:
        whole = store.series(store.find("mine"), "kl").steps.tolist()
    (run.path / journal.NAME).write_bytes(b"".join([*lines[:second], b"{oops}\n", *lines[second + 1 :]]))
    with rebuilt(tmp_path) as store:
        file = run.path / journal.NAME
        expected = f"the run 'mine': line {second + 1} of {file} is damaged and was left out: it is not valid JSON"
        assert store.notes == [expected]
        assert store.series(store.find("mine"), "kl").steps.tolist() == [step for step in whole if step != 1024]


def test_a_damaged_start_is_named_and_resuming_repairs_it(tmp_path: Path) -> None:
    hotloop.train("cartpole", steps=1024, config=QUICK, home=tmp_path, name="other")
    run = hotloop.train("cartpole", steps=1024, config=QUICK, home=tmp_path, name="mine")
    lines = lines_of(run)
    (run.path / journal.NAME).write_bytes(b"".join([b"?" + lines[0], *lines[1:]]))
    with rebuilt(tmp_path) as store:
        assert [one.name for one in store.runs()] == ["other"]
        (note,) = store.notes
        assert note.startswith(
            f"the run 'mine' cannot be listed: {run.path / journal.NAME} has no readable start (line 1"
        )
    hotloop.train(resume="mine", home=tmp_path, steps=1536)
    with rebuilt(tmp_path) as store:
        assert store.series(store.find("mine"), "kl").steps.tolist() == [512, 1024, 1536]


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_a_journal_that_is_no_file_is_named_and_the_other_runs_are_listed(tmp_path: Path, kind: str) -> None:
    hotloop.train("cartpole", steps=1024, config=QUICK, home=tmp_path, name="other")
    file = tmp_path / "runs" / "mine" / journal.NAME
    file.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    with Store(home=tmp_path) as store:
        assert [run.name for run in store.runs()] == ["other"]
        assert store.notes == [
            f"the run 'mine': {file} is not a regular file, so it cannot be the run's journal: move it away"
        ]


def test_texts_of_faults_are_bounded_when_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    journal.append_one(path, {"event": "trouble", "steps": 1, "what": "x" * 2_000_000, "facts": {"why": ["y" * 10**6]}})
    assert path.stat().st_size < 25_000
    (event,) = journal.read_all(path)
    assert "1990000 characters left out" in event["what"]
