"""A sweep's trials are in the store, as its journal has them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotloop.errors import QueryError
from hotloop.sweeps.api import finish
from hotloop.sweeps.display import Silent
from hotloop.tracking.store import Store
from hotloop.tracking.sweeps import find_stored_sweep, sweeps_page, trials_page
from hotloop.training.interrupts import Interrupts
from tests.sweeps.small import new_sweep


def test_a_sweep_and_its_trials_are_in_the_store(tmp_path: Path) -> None:
    space = {"ppo.minibatch_size": "pow2(512, 4096)"}
    sweep = new_sweep(tmp_path, "stored", space=space, trials=4, sampler="grid")
    interrupted = Interrupts()
    interrupted.request()
    assert not finish(sweep, 2, Silent(), interrupted)
    with Store(home=tmp_path) as store:
        (row,) = sweeps_page(store).rows
        assert (row["name"], row["status"], row["best"]) == ("stored", "stopped", None)

    assert finish(sweep, 2, Silent(), Interrupts())
    with Store(home=tmp_path) as store:
        (row,) = sweeps_page(store).rows
        best = sweep.best
        assert best is not None
        assert best.confirmation is not None
        assert (row["status"], row["best"], row["best_value"]) == ("completed", best.index, best.confirmation.mean)
        assert row["facts"]["counts"] == {"completed": 3, "refused": 1}
        assert row["definition"]["space"] == space
        assert find_stored_sweep(store, "stored") == find_stored_sweep(store, str(row["number"])) == row
        trials, total = trials_page(store, row["number"])
        assert total == 4
        assert [each["settings"] for each in trials] == [trial.settings for trial in sweep.trials]
        assert [each["facts"]["sha256"] for each in trials] == [trial.sha256 for trial in sweep.trials]
        # The refused one has no value.
        ranked, _ = trials_page(store, row["number"], sort="-value")
        values = [each["value"] for each in ranked]
        assert values == [*sorted(values[:3], reverse=True), None]
        assert trials_page(store, row["number"], offset=3, limit=2)[0] == trials[3:]
        with pytest.raises(QueryError, match="cannot be sorted by 'settings'"):
            trials_page(store, row["number"], sort="settings")


def test_pages_of_sweeps_go_on_after_the_last(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        interrupted = Interrupts()
        interrupted.request()
        finish(new_sweep(tmp_path, name, trials=2, sampler="sobol"), 1, Silent(), interrupted)
    with Store(home=tmp_path) as store:
        first = sweeps_page(store, limit=2)
        assert [row["name"] for row in first.rows] == ["three", "two"]
        rest = sweeps_page(store, after=first.next, limit=2)
        assert [row["name"] for row in rest.rows] == ["one"]
        assert rest.next is None
        assert find_stored_sweep(store, "none") is None


def test_a_store_that_cannot_be_written_does_not_stop_a_sweep(tmp_path: Path) -> None:
    class Noting(Silent):
        notes = ""

        def note(self, text: str) -> None:
            self.notes += text

    listener = Noting()
    sweep = new_sweep(tmp_path, trials=2, sampler="sobol")
    (tmp_path / "folder.db").mkdir()
    assert finish(sweep, 1, listener, Interrupts(), store=tmp_path / "folder.db")
    assert "the store does not have the newest trials" in listener.notes


def test_a_killed_sweep_is_not_shown_as_running(tmp_path: Path) -> None:
    # More trials than it can end before it is killed.
    sweep = new_sweep(tmp_path, "killed", trials=10_000, sampler="sobol")
    command = [sys.executable, "-m", "hotloop", "sweep", "--resume", str(sweep.path)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "HOTLOOP_HOME": str(tmp_path)})
    try:
        with Store(home=tmp_path) as store:
            while not (rows := sweeps_page(store).rows):
                assert process.poll() is None
                time.sleep(0.05)
            assert rows[0]["status"] == "running"
            process.kill()
            process.wait()
            assert sweeps_page(store).rows[0]["status"] == "stopped"
    finally:
        process.kill()
        process.wait()
