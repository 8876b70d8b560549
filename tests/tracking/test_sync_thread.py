"""The thread beside a run: a server that goes away, trackers that fail, a stall, a disk that fills, resources."""

import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import hotloop
from hotloop.tracking import journal
from hotloop.tracking.journal import Event
from hotloop.tracking.resources import Sampler
from hotloop.tracking.store import Store
from hotloop.tracking.sync_thread import SyncThread
from hotloop.training import Callback
from tests.tracking.servers import is_installed, serving

QUICK: dict[str, Any] = {
    "runner.num_envs": 8,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "track.interval": 16,
    "train.until": None,
    "train.evaluate_episodes": 0,
}


def until(condition: Callable[[], object], what: str) -> None:
    """Waits for what another thread does."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


class Outage(Callback):
    """Stops the server in the middle of a run and starts it again, each time waiting until the run has noticed."""

    def __init__(self, stop: Callable[[], None], start: Callable[[], None]) -> None:
        self._stop, self._start = stop, start
        self.kinds: list[str] = []
        self.stopped = self.started = False

    def trouble(self, report: Any) -> None:
        if report.kind.startswith("store"):
            self.kinds.append(report.kind)

    def iteration(self, report: Any) -> None:
        if not self.stopped and report.steps >= 20_000:
            self.stopped = True
            self._stop()
        elif self.stopped and not self.started and "store-away" in self.kinds:
            self.started = True
            self._start()


def test_a_server_that_goes_away_gets_everything_once_and_in_order(tmp_path: Path) -> None:
    if not is_installed():
        pytest.skip("PostgreSQL's programs are not installed; 'make system-deps' brings them")
    with serving() as server:
        outage = Outage(server.stop, server.start)

        class Enough(Callback):
            """Ends the run once the store is back."""

            def progress(self, report: Any) -> None:
                if "store-back" in outage.kinds:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            hotloop.train(
                "cartpole", steps=10**12, config=QUICK, home=tmp_path, store=server.url, callbacks=[outage, Enough()]
            )
        assert outage.kinds == ["store-away", "store-back"]
        with Store(server.url, home=tmp_path) as store:
            one = store.find("last")
            steps = store.series(one, "kl").steps.tolist()
            kinds = [event["kind"] for event in store.events(one) if event["kind"] != "return-collapsed"]
    reports = [event for event in journal.read_all(one.path / journal.NAME) if event["event"] == "iteration"]
    assert steps == [event["steps"] for event in reports]
    assert one.status == "failed"
    assert kinds == ["store-away", "store-back", "failed"]


def test_what_a_server_missed_comes_with_the_next_command(tmp_path: Path) -> None:
    if not is_installed():
        pytest.skip("PostgreSQL's programs are not installed; 'make system-deps' brings them")
    with serving() as server:
        server.stop()
        reports: list[str] = []

        class Troubles(Callback):
            def trouble(self, report: Any) -> None:
                reports.append(report.what)

        hotloop.train("cartpole", steps=4096, config=QUICK, home=tmp_path, store=server.url, callbacks=[Troubles()])
        assert "cannot be reached" in reports[0]
        assert "records are kept in the run's folder" in reports[0]
        server.start()
        with Store(server.url, home=tmp_path) as store:
            assert store.find("last").status == "completed"
            assert len(store.series(store.find("last"), "kl").steps) == 2


class Kept:
    """A tracker that keeps its events, or fails."""

    name = "kept"

    def __init__(self, fails: bool) -> None:
        self.events: list[Event] = []
        self.closed = False
        self._fails = fails

    def write(self, events: Sequence[Event]) -> None:
        if self._fails:
            raise RuntimeError("the service said no")
        self.events += events

    def close(self) -> None:
        self.closed = True


def test_trackers_get_every_event_and_one_that_fails_is_dropped(tmp_path: Path) -> None:
    good, bad = Kept(False), Kept(True)

    def missing() -> Kept:
        raise ImportError("no such package")

    thread = SyncThread(tmp_path, None, [lambda: good, lambda: bad, missing], lambda sample: None)
    for steps in range(10):
        journal.append_one(tmp_path / journal.NAME, {"event": "iteration", "steps": steps})
    thread.finish()
    assert [event["steps"] for event in good.events] == list(range(10))
    assert good.closed
    reports = [notice.what for notice in thread.notices()]
    assert reports == [
        "a tracker failed and is no longer used: no such package",
        "kept failed and is no longer used: the service said no",
    ]


def test_a_stall_is_reported_when_it_begins_and_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / journal.NAME).touch()
    with caplog.at_level(logging.WARNING, "hotloop"):
        thread = SyncThread(tmp_path, None, [], lambda sample: None, stalled_after=0.2)
        until(lambda: caplog.records, "no stall was noticed")
    assert "nothing has happened for" in caplog.text
    thread.beat()
    (notice,) = thread.notices()
    assert (notice.kind, notice.what.endswith("the run continues now")) == ("stalled", True)
    thread.finish()


def test_a_nearly_full_disk_is_reported_once_and_resources_are_sampled(tmp_path: Path) -> None:
    (tmp_path / journal.NAME).touch()
    samples: list[dict[str, Any]] = []
    thread = SyncThread(tmp_path, None, [], samples.append, disk_low=2**62)
    until(lambda: sum(range(10**6)) > 0 and thread._is_disk_low, "the disk was not looked at")
    thread.finish()
    assert [notice.kind for notice in thread.notices()] == ["disk-low"]
    # Of what was computed while waiting: a load is that since the sampler was made, some time before the first sample.
    assert samples[0]["process"]["cpu"] > 0
    assert samples[0]["process"]["memory"] > 2**20
    assert 0 < samples[0]["machine"]["memory"] < samples[0]["machine"]["memory_total"]


def _wait(pipe: Any) -> None:
    pipe.recv()


def test_workers_are_counted_one_by_one() -> None:
    start = multiprocessing.get_context("spawn")
    mine, theirs = start.Pipe()
    before = len([who for who in Sampler().sample() if who.startswith("worker")])
    workers = [start.Process(target=_wait, args=(theirs,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    sampler = Sampler()
    late = start.Process(target=_wait, args=(theirs,))
    late.start()
    workers.append(late)
    reports = sampler.sample()
    loads = {entry["process"]: entry["cpu"] for who, entry in reports.items() if who.startswith("worker")}
    assert loads[late.pid] is None
    assert loads[workers[0].pid] is not None
    found = {entry["process"] for who, entry in reports.items() if who.startswith("worker")}
    assert len(found) >= before + 3
    assert {worker.pid for worker in workers} <= found
    for _ in workers:
        mine.send(None)
    for worker in workers:
        worker.join()


def test_gpus_are_reported_by_their_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, NVIDIA X, 42, 1000, 8000'\necho '1, NVIDIA X, [N/A], 10, 8000'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    reports = Sampler().sample()
    assert reports["gpu 0"] == {"load": 0.42, "memory": 1000 * 2**20, "memory_total": 8000 * 2**20, "name": "NVIDIA X"}
    assert reports["gpu 1"]["load"] is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority of their own")
def test_threads_that_record_give_way_to_those_that_train(tmp_path: Path) -> None:
    found: dict[str, int] = {}

    class Look(Callback):
        def iteration(self, report: Any) -> None:
            for thread in threading.enumerate():
                assert thread.native_id is not None
                found[thread.name] = os.getpriority(os.PRIO_PROCESS, thread.native_id)

    hotloop.train("cartpole", steps=65536, config=QUICK, home=tmp_path, callbacks=[Look()])
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert found["hotloop-journal"] == found["hotloop-sync"] == min(19, own + 5)
    assert found["MainThread"] == own


def test_threads_end_with_the_run(tmp_path: Path) -> None:
    hotloop.train("cartpole", steps=1024, config=QUICK, home=tmp_path)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("hotloop-")]
