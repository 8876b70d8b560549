"""The store: what a run leaves in it, from either kind of database."""

import dataclasses
import json
import multiprocessing
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hotloop
from hotloop.errors import StoreAwayError, StoreError
from hotloop.tracking import journal, migrations, store_sync
from hotloop.tracking.database import Database
from hotloop.tracking.groups import group_seeds
from hotloop.tracking.store import Store
from hotloop.tracking.store_url import find_store_url
from hotloop.training.runs import RunFolder
from tests.cli.command import hotloop as command

SMALL: dict[str, Any] = {"runner.num_envs": 8, "ppo.horizon": 16, "ppo.minibatch_size": 64, "track.interval": 4}
QUICK = {**SMALL, "train.until": None, "train.evaluate_episodes": 4}


def trained(home: Path, store: str | None = None, **more: Any) -> hotloop.training.Run:
    return hotloop.train("cartpole", steps=4096, config={**QUICK, **more}, home=home, store=store)


def metrics_of(store: Store) -> dict[str, list[tuple[str, int, float, float]]]:
    return {run.id: list(store.points(run)) for run in store.runs()}


def test_a_run_is_there_with_all_that_belongs_to_it(tmp_path: Path, store: str) -> None:
    run = trained(tmp_path, store, **{"train.seed": 2**63, "train.checkpoint_every": 16})
    with Store(store, home=tmp_path) as found:
        (one,) = found.runs()
        assert (one.name, one.status, one.ended, one.env) == (run.name, "completed", "steps", "cartpole")
        assert (one.seed, one.steps, one.iterations, one.episodes) == (2**63, run.steps, run.iterations, run.episodes)
        assert one.config == run.config.model_dump(mode="json")
        assert {"hotloop", "python", "numpy"} <= one.facts["versions"].keys()
        assert one.facts["machine"]["isa"]
        assert run.best is not None
        assert one.best == pytest.approx(run.best.mean)
        series = found.series(one, "value_loss")
        assert series.steps.tolist() == [512 * (i + 1) for i in range(8)]
        reports = [event for event in journal.read_all(run.path / journal.NAME) if event["event"] == "iteration"]
        assert series.values.tolist() == [event["value_loss"] for event in reports]
        episodes = found.episodes(one)
        assert sum(row["count"] for row in episodes) == run.episodes
        assert all(len(row["sample"]) == min(16, row["count"]) for row in episodes)
        assert [row["path"] for row in found.checkpoints(one)] == ["checkpoints/2048", "checkpoints/4096"]
        (evaluation,) = found.evaluations(one)
        assert (evaluation["source"], evaluation["episodes"]) == ("training", 4)


def test_feeding_again_changes_nothing(tmp_path: Path, store: str) -> None:
    run = trained(tmp_path, store)
    url = find_store_url(store, tmp_path)
    assert url is not None
    with Store(store, home=tmp_path) as found, Database(url) as database:
        before = metrics_of(found)
        assert store_sync.sync(database, run.path).count == 0
        assert metrics_of(found) == before


def test_resuming_deletes_what_lies_behind_the_checkpoint(tmp_path: Path, store: str) -> None:
    run = trained(tmp_path, store, **{"train.checkpoint_every": 12})
    with Store(store, home=tmp_path) as found:
        whole = [point for point in found.points(found.find("last")) if not point[0].startswith(("time", "seconds"))]
        assert len([row for row in found.checkpoints(found.find("last")) if row["step"] > 3072]) == 1
        shutil.rmtree(run.path / "checkpoints" / "4096")
        hotloop.train(resume=run.name, home=tmp_path, store=store)
        again = [point for point in found.points(found.find("last")) if not point[0].startswith(("time", "seconds"))]
        exact = {(name, step): value for name, step, _, value in whole if name != "steps_per_second"}
        assert {(n, s): v for n, s, _, v in again if n != "steps_per_second"} == pytest.approx(exact)
        assert "resumed" in [event["kind"] for event in found.events(found.find("last"))]


def test_a_lost_store_is_rebuilt_from_the_folders(tmp_path: Path) -> None:
    trained(tmp_path)
    trained(tmp_path)
    with Store(home=tmp_path) as found:
        before = metrics_of(found)
    (tmp_path / "hotloop.db").unlink()
    with Store(home=tmp_path) as found:
        assert metrics_of(found) == before


def test_a_run_without_a_store_is_in_none(tmp_path: Path) -> None:
    run = trained(tmp_path, "none")
    assert not (tmp_path / "hotloop.db").exists()
    assert journal.read_all(run.path / journal.NAME)[-1]["status"] == "completed"
    with Store(home=tmp_path) as found:
        assert found.runs() == []


def test_an_older_store_is_upgraded_with_its_runs(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(tmp_path, store)
    later = ("ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT 'none'",)
    monkeypatch.setattr(migrations, "MIGRATIONS", [*migrations.MIGRATIONS, later])
    url = find_store_url(store, tmp_path)
    assert url is not None
    with Database(url) as database:
        assert database.execute("SELECT note FROM runs").fetchall() == [("none",)]
        assert database.execute("SELECT version FROM hotloop_store").fetchone()[0] == len(migrations.MIGRATIONS)
    Database(url).close()


def test_a_newer_store_is_refused(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(tmp_path, store)
    url = find_store_url(store, tmp_path)
    assert url is not None
    with Database(url) as database:
        database.execute("UPDATE hotloop_store SET version = 99")
    with pytest.raises(StoreError, match=r"is of a newer Hotloop \(version 99 of its tables"):
        Store(store, home=tmp_path)


def test_a_damaged_store_is_refused_and_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "hotloop.db").write_bytes(b"this is no database at all" * 100)
    troubles = Troubles()
    run = hotloop.train("cartpole", steps=2048, config=QUICK, home=tmp_path, callbacks=[troubles])
    assert run.steps >= 2048
    assert "is damaged (file is not a database): move it away" in troubles.reports[0]
    assert "records are kept in the run's folder" in troubles.reports[0]
    with pytest.raises(StoreError, match="is damaged"):
        Store(home=tmp_path)
    (tmp_path / "hotloop.db").unlink()
    with Store(home=tmp_path) as found:
        assert found.find("last").status == "completed"


def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(StoreError, match=r"other\.db is a database, but no store of Hotloop"):
        Store(path, home=tmp_path)


def test_a_store_that_is_missing_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no store .*missing\.db"):
        Store(tmp_path / "missing.db", home=tmp_path)
    with pytest.raises(hotloop.training.TrainingError, match=r"the store mysql://\.\.\. is of no known kind"):
        trained(tmp_path, "mysql://somewhere/x")
    with pytest.raises(StoreError, match="cannot be reached"):
        Store("postgresql://tester@127.0.0.1:1/none", home=tmp_path)


def test_a_locked_store_is_waited_for_and_then_said_to_be_locked(tmp_path: Path) -> None:
    trained(tmp_path)
    url = find_store_url(None, tmp_path)
    assert url is not None
    holder = sqlite3.connect(tmp_path / "hotloop.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    locked = pytest.raises(StoreAwayError, match="is locked by another process")
    with Database(url, timeout=0.05) as database, locked, database.translated_errors(), database.transaction():
        pass
    holder.execute("ROLLBACK")
    holder.close()


# Imports first: who gives up root may not be able to read the interpreter's own folder.
READ = """
import os, sys
from hotloop.tracking.store import Store
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
store = Store(home=sys.argv[1])
print(store.find("last").status, store.notes)
"""


@pytest.fixture
def shared_home() -> Iterator[Path]:
    """A home that other users can read: pytest's own folders are closed to them."""
    with tempfile.TemporaryDirectory(prefix="hotloop-store-") as name:
        yield Path(name)


def read_without_rights(home: Path) -> str:
    """Read a store as a user who may write nothing below its home."""
    changed = [home, *home.rglob("*")]
    for path in changed:
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = subprocess.run([sys.executable, "-c", READ, str(home)], capture_output=True, text=True)
    for path in changed:
        path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_read_only_store_can_be_read(shared_home: Path) -> None:
    trained(shared_home)
    shown = read_without_rights(shared_home)
    assert shown.startswith("completed")
    assert "hotloop.db is read-only: make it and its folder writable" in shown


def test_a_read_only_home_without_a_store_is_read_from_its_journals(shared_home: Path) -> None:
    trained(shared_home)
    for path in shared_home.glob("hotloop.db*"):
        path.unlink()
    shown = read_without_rights(shared_home)
    assert shown.startswith("completed")
    assert "hotloop.db cannot be made in a read-only folder; showing the records in the folders of runs" in shown
    assert not list(shared_home.glob("hotloop.db*"))


def test_a_read_only_store_with_a_log_shows_its_newest_rows(shared_home: Path) -> None:
    trained(shared_home)
    file = shared_home / "hotloop.db"
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute("UPDATE runs SET status = 'stopped'")
    # As after a kill: the log has not been merged, and the file that coordinates processes is gone.
    copies = {name: (shared_home / name).read_bytes() for name in ("hotloop.db", "hotloop.db-wal")}
    writer.close()
    for path in shared_home.glob("hotloop.db*"):
        path.unlink()
    for name, data in copies.items():
        (shared_home / name).write_bytes(data)
    assert read_without_rights(shared_home).startswith("stopped")
    assert {path.name for path in shared_home.glob("hotloop.db*")} == copies.keys()


def without_first_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (without_first_line, "has no readable start"),
        (lambda path: path.write_bytes(b""), "has no readable start"),
        (lambda path: path.unlink(), "is missing"),
    ],
    ids=["first line", "emptied", "removed"],
)
def test_a_run_whose_journal_lacks_its_start_is_named(spoil: Callable[[Path], Any], why: str, tmp_path: Path) -> None:
    kept, run = trained(tmp_path), trained(tmp_path)
    spoil(run.path / journal.NAME)
    with Store(home=tmp_path) as found:
        assert len(found.runs()) == 2
        (note,) = found.notes
    assert note.startswith(f"the run {run.name!r} is shown as the store has it: {run.path / journal.NAME} {why}")
    (tmp_path / "hotloop.db").unlink()
    with Store(home=tmp_path) as found:
        assert [one.name for one in found.runs()] == [kept.name]
        (note,) = found.notes
    assert note.startswith(f"the run {run.name!r} cannot be listed: {run.path / journal.NAME} {why}")


def test_a_journal_that_was_cut_is_named(tmp_path: Path) -> None:
    run = trained(tmp_path)
    path = run.path / journal.NAME
    path.write_bytes(path.read_bytes()[:-300])
    with Store(home=tmp_path) as found:
        assert found.find("last").status == "completed"
        assert found.notes == [f"the run {run.name!r} is shown as the store has it: {path} lost 300 bytes"]


class Troubles(hotloop.training.Callback):
    def __init__(self) -> None:
        self.reports: list[str] = []

    def trouble(self, report: Any) -> None:
        self.reports.append(report.what)


def _train_one(home: str, seed: int) -> None:
    trained(Path(home), None, **{"train.seed": seed})


def test_several_processes_write_one_file_at_once(tmp_path: Path) -> None:
    start = multiprocessing.get_context("spawn")
    processes = [start.Process(target=_train_one, args=(str(tmp_path), seed)) for seed in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with Store(home=tmp_path) as found:
        runs = found.runs()
        assert sorted(run.seed for run in runs) == [0, 1, 2, 3]
        assert {len(found.series(run, "kl").steps) for run in runs} == {8}
        assert len(group_seeds(runs)) == 1
    check = sqlite3.connect(tmp_path / "hotloop.db")
    assert check.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    check.close()


ENDLESS = """
import sys, hotloop, hotloop.training
class Tell(hotloop.training.Callback):
    def iteration(self, report):
        print(report.steps, flush=True)
hotloop.train("cartpole", steps=10**12, config={}, name="run", home=sys.argv[1], store=sys.argv[2], callbacks=[Tell()])
""".replace("{}", repr({**QUICK, "train.checkpoint_every": 0}))


def killed_run(home: Path, store: str, records: int) -> list[int]:
    """Kill a run after so many records, of which some are written; return the steps of all its events."""
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(home), store], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    written = home / "runs" / "run" / journal.NAME
    reports: list[int] = []
    while len(reports) < records or b'"iteration"' not in written.read_bytes():
        reports.append(int(process.stdout.readline()))
    process.send_signal(signal.SIGKILL)
    reports += [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    process.wait()
    process.stdout.close()
    return reports


def test_a_kill_loses_little_and_breaks_nothing(tmp_path: Path, store: str) -> None:
    reports = killed_run(tmp_path, store, 3000)
    with Store(store, home=tmp_path) as found:
        one = found.find("last")
        assert one.status == "gone"
        steps = found.series(one, "kl").steps.tolist()
    assert steps == reports[: len(steps)]
    # The journal is written twice a second: all but the last moment is there.
    assert len(steps) > 0
    if store.startswith("sqlite"):
        check = sqlite3.connect(store.removeprefix("sqlite:///"))
        assert check.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        check.close()


def test_a_run_is_running_while_its_process_lives(tmp_path: Path) -> None:
    seen = []

    class Look(hotloop.training.Callback):
        def checkpoint(self, report: Any) -> None:
            with Store(home=tmp_path) as found:
                url = find_store_url(None, tmp_path)
                assert url is not None
                with Database(url) as database:
                    store_sync.sync(database, report.path.parent.parent)
                (one,) = found.runs()
                seen.append(one.status)
                with pytest.raises(StoreError, match=r"is running \(process \d+ on .*\): end it first"):
                    found.delete(one)

    hotloop.train("cartpole", steps=2048, config=QUICK, home=tmp_path, callbacks=[Look()])
    assert seen == ["running"]


def test_deleting_removes_rows_and_folder(tmp_path: Path, store: str) -> None:
    first, second = trained(tmp_path, store), trained(tmp_path, store)
    with Store(store, home=tmp_path) as found:
        found.delete(found.find(first.name))
        assert [run.name for run in found.runs()] == [second.name]
        assert len(metrics_of(found)) == 1
    assert not first.path.exists()
    with Store(store, home=tmp_path) as found:
        assert [run.name for run in found.runs()] == [second.name]


def test_of_points_for_the_same_place_the_last_counts(tmp_path: Path, store: str) -> None:
    run = trained(tmp_path, store)
    reports = [(step % 50, float(step)) for step in range(200)]
    url = find_store_url(store, tmp_path)
    assert url is not None
    with Store(store, home=tmp_path) as found, Database(url) as database:
        one = found.find(run.path.name)
        key = database.key_numbers(["mine"])["mine"]
        rows = [(one.number, key, step, 0.0, value) for step, value in reports]
        with database.transaction():
            database.insert("metrics", ("run", "key", "step", "time", "value"), rows, unique=("run", "key", "step"))
        curve = found.series(one, "mine")
    assert dict(zip(curve.steps.tolist(), curve.values.tolist(), strict=True)) == dict(reports)


def test_a_store_that_refuses_to_forget_a_run_keeps_its_folder(tmp_path: Path) -> None:
    run = trained(tmp_path)
    with Store(home=tmp_path) as found:
        trigger = "CREATE TRIGGER kept BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'it is kept'); END"
        found._database.execute(trigger)
        with pytest.raises(StoreError, match="it is kept"):
            found.delete(found.find("last"))
        assert found.find("last").path == run.path
    assert (run.path / "config.yaml").exists()


def test_runs_are_found_by_id_name_beginning_and_last(tmp_path: Path) -> None:
    for name in ("first-one", "first-two"):
        hotloop.train("cartpole", steps=1024, config=QUICK, home=tmp_path, name=name)
    with Store(home=tmp_path) as found:
        two, one = found.runs()
        for text, run in (("last", two), ("first-o", one), (one.id, one), (two.id[:8], two), ("first-two", two)):
            assert found.find(text) == run
        with pytest.raises(
            StoreError, match=rf"'first' could be any of first-two \({two.id}\), first-one \({one.id}\): say more"
        ):
            found.find("first")
        with pytest.raises(StoreError, match="there is no run 'frst-one'; did you mean 'first-one'"):
            found.find("frst-one")


def test_a_home_that_was_moved_or_copied_goes_on_with_its_own_folders(tmp_path: Path) -> None:
    run = trained(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    with Store(home=tmp_path / "copy") as found:
        assert not found.notes
        found.delete(found.find("last"))
    assert run.path.exists()
    (tmp_path / "old").rename(tmp_path / "new")
    there = tmp_path / "new" / "runs" / run.name
    with Store(home=tmp_path / "new") as found:
        assert found.find("last").path == there
    (tmp_path / "new" / "hotloop.db").unlink()
    with Store(home=tmp_path / "new") as found:
        assert (found.find("last").path, found.find("last").steps) == (there, run.steps)


def test_a_moved_folder_is_the_same_run_and_a_copy_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path)
    moved = run.path.with_name("elsewhere")
    run.path.rename(moved)
    hotloop.train(resume=moved, steps=5120)
    with Store(home=tmp_path) as found:
        (one,) = found.runs()
        assert (one.path, one.steps) == (moved, 5120)
    shutil.copytree(moved, run.path)
    with Store(home=tmp_path) as found:
        assert [dataclasses.replace(run, status="") for run in found.runs()] == [dataclasses.replace(one, status="")]
        assert "is a copy of the run" in found.notes[0]


def test_a_run_folder_is_held_by_one_process(tmp_path: Path) -> None:
    from hotloop.tracking.store import is_in_use

    run = trained(tmp_path)
    assert not is_in_use(run.path)
    folder = RunFolder(run.path)
    assert is_in_use(run.path)
    folder.release()
    assert json.loads((run.path / "run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("evaluations.facts", "{"), ("evaluations.facts", "1"), ("episodes.sample", "{}"), ("runs.seed", "x")),
        *(("runs.steps", "many"), ("metrics.value", "high"), ("runs.config", "[]")),
    ],
)
def test_a_damaged_store_is_named_with_what_is_wrong(column: str, value: str, tmp_path: Path) -> None:
    trained(tmp_path)
    table, _, name = column.partition(".")
    with Store(home=tmp_path) as found:
        assert found.find_damage() is None
        writer = sqlite3.connect(tmp_path / "hotloop.db", isolation_level=None)
        writer.execute(f"UPDATE {table} SET {name} = ?", (value,))
        writer.close()
        damage = found.find_damage()
    assert damage is not None
    assert f"hotloop.db is damaged ({column} holds an invalid value): move it away" in damage
    done = command("runs", "show", "last", "--json", HOTLOOP_HOME=str(tmp_path))
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or "hotloop.db" in done.stderr or "the store's row" in done.stderr
