"""Live events: order, resumption, and what happens to runs and clients while one watches."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hotloop.server import hub as hubs
from hotloop.server.hub import QUEUE_EVENTS, RING_EVENTS, Hub, Stream, encode
from tests.server.live_server import TOKEN, Events, Server, serving, start_training, train

LONG = ("cartpole", "--until", "100000", "--steps", "100M", "track.interval=20")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Server]:
    """A server over an empty home."""
    with serving(tmp_path) as server:
        yield server


def test_a_run_is_followed_from_its_start_to_its_death(fresh: Server, tmp_path: Path) -> None:
    events = Events(fresh, "runs,alerts")
    run = start_training(tmp_path, *LONG, "--name", "live")
    try:
        row = events.wait("runs")["runs"][0]
        assert (row["name"], row["status"]) == ("live", "running")
        watching = Events(fresh, f"run:{row['id']}")
        first = watching.wait("points")
        again = watching.wait("points")
        assert first["run"] == row["id"]
        before, after = (found["points"]["return_recent"] for found in (first, again))
        steps = [step for step, _, _ in before + after]
        assert steps == sorted(set(steps))
        series = fresh.get(f"/api/rl/series?run=live&metric=return_recent&points=4000&to={steps[-1]}")["series"][0]
        recorded = dict(zip(series["first"], series["mean"], strict=True)) if series["raw"] else {}
        assert not recorded or all(recorded[step] == value for step, _, value in before + after)
    finally:
        run.kill()
        run.communicate()
    while (changed := events.wait("runs")["runs"][0])["status"] == "running":
        pass
    assert changed["status"] == "gone"


def test_a_resumed_run_goes_back_and_only_then_on(fresh: Server, tmp_path: Path) -> None:
    run = start_training(tmp_path, *LONG, "--name", "again", "train.checkpoint_every=40")
    events = Events(fresh, "runs")
    row = events.wait("runs")["runs"][0]
    watching = Events(fresh, f"run:{row['id']}")
    known: dict[int, float] = {}
    rewinds = 0

    def follow(until: str) -> None:
        """Apply events as a page does."""
        nonlocal known, rewinds
        while True:
            kind, data = watching.next()
            if kind == "rewind":
                rewinds += 1
                known = {step: value for step, value in known.items() if step <= data["step"]}
            elif kind == "points":
                points = data["points"].get("kl", [])
                assert not known.keys() & {step for step, _, _ in points}
                known |= {step: value for step, _, value in points}
            if kind == until:
                return

    follow("checkpoint")
    follow("points")
    run.kill()
    run.communicate()
    resumed = start_training(tmp_path, "--resume", "again")
    try:
        follow("rewind")
        follow("points")
        follow("points")
    finally:
        resumed.kill()
        resumed.communicate()
    assert rewinds == 1
    low, high = min(known), max(known)
    export = fresh.request("GET", "/api/rl/export?run=again&metric=kl").body.decode().splitlines()[1:]
    recorded = {int(line.split(",")[3]): float(line.split(",")[5]) for line in export}
    assert known == {step: value for step, value in recorded.items() if low <= step <= high}


def test_a_client_that_comes_back_gets_what_it_missed(fresh: Server, tmp_path: Path) -> None:
    first, other = Events(fresh, "runs"), Events(fresh, "runs")
    train(tmp_path, "cartpole", "--steps", "20k", "--until", "1000", "--name", "one")
    assert first.wait("runs")["runs"][0]["name"] == "one"
    last = first.last_id
    first.close()
    train(tmp_path, "cartpole", "--steps", "20k", "--until", "1000", "--name", "two")
    while "two" not in [row["name"] for row in other.wait("runs")["runs"]]:
        pass
    assert last is not None
    for back in (Events(fresh, "runs", last), Events(fresh, "runs", after=last)):
        names: list[str] = []
        while "two" not in names:
            kind, data = back.next()
            assert kind == "runs"
            names += [row["name"] for row in data["runs"]]


@pytest.mark.parametrize("last", ["another-boot-5", "x", "", "0000-99999999999999999999"])
def test_a_client_from_before_a_restart_must_read_again(fresh: Server, last: str) -> None:
    assert "why" in Events(fresh, "runs", last).wait("reset")


def test_a_run_that_is_deleted_is_announced(fresh: Server, tmp_path: Path) -> None:
    train(tmp_path, "cartpole", "--steps", "20k", "--until", "1000", "--name", "short")
    run = fresh.get("/api/rl/runs")["runs"] or [Events(fresh, "runs").wait("runs")["runs"][0]]
    events = Events(fresh, "runs")
    assert fresh.write("DELETE", f"/api/rl/runs/{run[0]['id']}").status == 204
    assert events.wait("deleted") == {"run": run[0]["id"]}
    assert not (tmp_path / "runs" / "short").exists()


def test_stopping_ends_a_run_with_a_checkpoint(fresh: Server, tmp_path: Path) -> None:
    run = start_training(tmp_path, *LONG, "--name", "stopped")
    try:
        row = Events(fresh, "runs").wait("runs")["runs"][0]
        assert fresh.get("/api/rl/runs/stopped")["can_stop"] is True
        assert fresh.write("DELETE", "/api/rl/runs/stopped").status == 409
        assert fresh.write("POST", f"/api/rl/runs/{row['id']}/stop").status == 202
        assert run.wait(60) == 130
    finally:
        run.kill()
        run.communicate()
    assert list((tmp_path / "runs" / "stopped" / "checkpoints").iterdir())
    assert fresh.write("POST", "/api/rl/runs/stopped/stop").status == 409


def test_a_stranger_that_has_a_runs_number_is_not_stopped(fresh: Server, tmp_path: Path) -> None:
    """A process number may belong to another program by now: who does not hold the folder gets no signal."""
    import fcntl

    train(tmp_path, "cartpole", "--steps", "20k", "--until", "1000", "--name", "old")
    handle = os.open(tmp_path / "runs" / "old", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert fresh.write("POST", "/api/rl/runs/old/stop").status == 409
    finally:
        os.close(handle)


def test_only_so_many_streams_are_held(fresh: Server) -> None:
    process = psutil.Process(fresh.process.pid)
    with contextlib.ExitStack() as stack:
        statuses = []
        for _ in range(200):
            connection = stack.enter_context(socket.create_connection((fresh.host, fresh.port), timeout=60))
            connection.sendall(b"GET /api/rl/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            statuses.append(int(connection.recv(4096).split(b" ", 2)[1]))
        assert statuses.count(200) == hubs.MOST_STREAMS
        assert statuses.count(429) == 200 - hubs.MOST_STREAMS
    while fresh.get("/api/rl/status")["streams"]:
        pass
    assert process.memory_info().rss < 250e6


def test_one_session_holds_eight_streams(fresh: Server) -> None:
    signed = fresh.request("POST", "/api/rl/session", {"token": TOKEN})
    cookie = signed.headers["set-cookie"].partition(";")[0].encode()
    head = b"GET /api/rl/events HTTP/1.1\r\nHost: localhost\r\nCookie: " + cookie + b"\r\n\r\n"
    with contextlib.ExitStack() as stack:
        statuses = []
        for _ in range(hubs.MOST_STREAMS_PER_CLIENT + 1):
            connection = stack.enter_context(socket.create_connection((fresh.host, fresh.port), timeout=60))
            connection.sendall(head)
            statuses.append(int(connection.recv(4096).split(b" ", 2)[1]))
        assert statuses == [200] * hubs.MOST_STREAMS_PER_CLIENT + [429]


def test_a_client_that_never_reads_costs_bounded_memory() -> None:
    stream = Stream("", frozenset(("runs",)), frozenset())
    for number in range(10 * QUEUE_EVENTS):
        stream.push(encode(f"b-{number}", "runs", {"number": number}))
    assert len(stream.queue) <= QUEUE_EVENTS
    assert any(b"event: reset" in data for data in stream.queue)


def test_the_ring_is_bounded_and_resumes_exactly_once() -> None:
    hub = Hub()
    for number in range(RING_EVENTS + 500):
        hub._publish("runs" if number % 2 else "alerts", "x", {"number": number})
    everything = hub.join("", ["runs", "alerts"], [], f"{hub.boot}-{hub.last - 10}", {})
    numbers = [data for data in everything.queue if b"event: x" in data]
    assert len(numbers) == 10
    assert len(hub.join("", ["alerts"], [], f"{hub.boot}-{hub.last - 10}", {}).queue) == 1 + 5
    forgotten = hub.join("", ["runs"], [], f"{hub.boot}-1", {})
    assert any(b"event: reset" in data for data in forgotten.queue)
    large = "x" * 100_000
    for _ in range(100):
        hub._publish("runs", "x", large)
    assert sum(len(event.data) for event in hub._ring) <= hubs.RING_BYTES


def test_unknown_topics_are_refused(fresh: Server) -> None:
    reply = fresh.request("GET", "/api/rl/events?topics=nothing")
    assert reply.status == 400
    assert "nothing" in reply.json["detail"]


def test_the_server_ends_at_once_though_streams_are_open(fresh: Server) -> None:
    stream = Events(fresh, "runs")
    begun = time.monotonic()
    fresh.process.send_signal(signal.SIGTERM)
    fresh.process.wait(60)
    assert fresh.process.returncode == 0
    assert time.monotonic() - begun < 60
    stream.close()
