"""Stores behind a server: both kinds, and what happens when one goes away, comes back, or cannot be written."""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.live_server import TOKEN, Events, Server, serving, train
from tests.tracking.servers import is_installed
from tests.tracking.servers import serving as running_postgresql


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


SHORT = ("cartpole", "--steps", "40k", "--until", "1000")


@pytest.fixture
def both(store: str, tmp_path: Path) -> Iterator[Server]:
    """A server over a run in a store of either kind."""
    train(tmp_path, *SHORT, "--name", "one", "--store", store)
    with serving(tmp_path, "--store", store) as server:
        yield server


def test_both_databases_answer_alike(both: Server, tmp_path: Path, store: str) -> None:
    run = both.get("/api/rl/runs")["runs"][0]
    assert (run["name"], run["status"], len(run["sparkline"]) > 1) == ("one", "completed", True)
    for x in ("step", "time", "seconds", "episodes"):
        (series,) = both.get(f"/api/rl/series?run=one&metric=kl&x={x}&smooth=0.5")["series"]
        assert series["first"] == sorted(series["first"])
    assert both.write("PATCH", "/api/rl/runs/one", {"tags": ["x"], "note": "\x00n"}).json["tags"] == ["x"]
    assert both.write("PATCH", "/api/rl/runs/one", {"tags": ["x", "y"]}).json["tags"] == ["x", "y"]
    for odd in ("\x00", "\ud800", "\U0001f600", "' OR 1=1 --"):
        reply = both.request("POST", "/api/rl/series", {"run": ["one"], "metric": [odd]})
        assert (reply.status, reply.json.get("series", [])) in ((200, []), (422, [])), reply
        assert both.request("POST", "/api/rl/series", {"run": [odd], "metric": ["kl"]}).status in (404, 422)
    assert both.request("GET", "/api/rl/groups?by=%00").status == 400
    for path in ("evaluations", "checkpoints", "events", "episodes", "resources", "metrics", "replays"):
        both.get(f"/api/rl/runs/one/{path}")
    for path in ("groups", "keys", "alerts", "compare?run=one", "performance/summary", "performance/trends", "status"):
        both.get(f"/api/rl/{path}")
    assert both.request("GET", "/metrics").status == 200
    events = Events(both, "runs")
    train(tmp_path, *SHORT, "--seed", "2", "--name", "two", "--store", store)
    assert events.wait("runs")["runs"][0]["name"] == "two"
    assert both.get("/api/rl/compare?run=one&run=two")["first_difference"]["step"] is not None
    (group,) = both.get("/api/rl/series?run=one&run=two&metric=kl&group=seed")["series"]
    assert group["n"][0] == 2
    assert both.write("DELETE", "/api/rl/runs/two").status == 204
    assert events.wait("deleted")


def test_alerts_are_listed_and_seen_once(both: Server, tmp_path: Path, store: str) -> None:
    from hotloop.tracking import journal

    note = {"event": "trouble", "steps": 5, "what": "<img src=x onerror=alert(1)>", "kind": "made-up", "iterations": 1}
    journal.append_one(tmp_path / "runs" / "one" / journal.NAME, note)
    train(tmp_path, *SHORT, "--name", "later", "--store", store)
    alerts = both.get("/api/rl/alerts")
    while not alerts["alerts"]:
        # Journals that no process brings to the store are looked for every few seconds.
        alerts = both.get("/api/rl/alerts")
    assert alerts["unseen"] == 1
    (alert,) = alerts["alerts"]
    assert (alert["kind"], alert["run_name"], alert["seen"]) == ("made-up", "one", False)
    assert both.write("POST", f"/api/rl/alerts/{alert['number']}/seen").status == 204
    after = both.get("/api/rl/alerts")
    assert (after["unseen"], after["alerts"][0]["seen"]) == (0, True)
    assert both.write("POST", "/api/rl/alerts/99999/seen").status == 404


@pytest.mark.skipif(not is_installed(), reason="PostgreSQL's programs are not installed")
def test_a_database_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    with running_postgresql() as database:
        train(tmp_path, *SHORT, "--name", "one", "--store", database.url)
        with serving(tmp_path, "--store", database.url) as server:
            assert server.get("/api/rl/runs")["stale"] is False
            events = Events(server, "runs")
            database.stop()
            reply = server.request("GET", "/api/rl/series?run=one&metric=kl")
            assert reply.status == 503
            assert "retry-after" in reply.headers
            assert "tester" not in reply.json["detail"] or "password" not in reply.json["detail"]
            # The list counts as current for a moment.
            wait_for(lambda: server.get("/api/rl/runs")["stale"])
            assert server.get("/api/rl/runs")["runs"][0]["name"] == "one"
            assert server.get("/api/rl/status")["store"]["away_since"] is not None
            assert events.wait("store")["away_since"] is not None
            assert b"hotloop_store_up 0.0" in server.request("GET", "/metrics").body
            database.start()
            assert events.wait("store")["away_since"] is None
            assert server.get("/api/rl/runs")["stale"] is False
            assert server.get("/api/rl/series?run=one&metric=kl")["series"]


def test_a_store_that_is_deleted_and_made_again(tmp_path: Path) -> None:
    train(tmp_path, *SHORT, "--name", "one")
    with serving(tmp_path) as server:
        assert server.get("/api/rl/runs")["total"] == 1
        for path in tmp_path.glob("hotloop.db*"):
            path.unlink()
        gone = server.get("/api/rl/runs")
        assert (gone["stale"], gone["total"]) == (True, 1)
        reply = server.request("GET", "/api/rl/series?run=one&metric=kl")
        assert reply.status == 503
        assert str(tmp_path) not in reply.body.decode()
        train(tmp_path, *SHORT, "--name", "two")
        names = [row["name"] for row in server.get("/api/rl/runs")["runs"]]
        while "two" not in names:
            names = [row["name"] for row in server.get("/api/rl/runs")["runs"]]
        assert server.get("/api/rl/series?run=two&metric=kl")["series"]


def test_a_run_whose_folder_is_elsewhere_is_shown_as_far_as_the_store_goes(tmp_path: Path) -> None:
    train(tmp_path, *SHORT, "--name", "moved")
    with serving(tmp_path) as server:
        server.get("/api/rl/runs")
        shutil.move(tmp_path / "runs" / "moved", tmp_path / "away")
        run = server.get("/api/rl/runs/moved")
        assert (run["folder_here"], run["path"], run["exact"]) == (False, None, False)
        assert server.get("/api/rl/runs/moved/replays") == {"replays": [], "folder_here": False}
        assert server.get("/api/rl/series?run=moved&metric=kl")["series"]
        for path in ("play", "verify"):
            assert server.write("POST", f"/api/rl/runs/moved/{path}").status == 409


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_store_is_served(tmp_path: Path) -> None:
    train(tmp_path, *SHORT, "--name", "one")
    (tmp_path / "hotloop.db").chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with serving(tmp_path) as server:
            assert server.get("/api/rl/runs")["total"] == 1
            assert server.write("PATCH", "/api/rl/runs/one", {"note": "x"}).status == 403
    finally:
        tmp_path.chmod(0o700)


def test_a_store_of_an_older_version_is_read_without_being_changed(tmp_path: Path) -> None:
    train(tmp_path, *SHORT, "--name", "one")
    with sqlite3.connect(tmp_path / "hotloop.db") as connection:
        for table in ("marks", "jobs", "job_events", "job_groups", "orchestrator", "trials", "sweeps"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("UPDATE hotloop_store SET version = 2")
    connection.close()
    with serving(tmp_path, "--read-only") as server:
        row = server.get("/api/rl/runs")["runs"][0]
        assert (row["tags"], row["note"]) == ([], "")
        assert server.get("/api/rl/alerts")["unseen"] == 0
    with serving(tmp_path) as server:
        assert server.write("PATCH", "/api/rl/runs/one", {"note": "x"}).json["note"] == "x"


def test_a_disk_that_is_full_costs_the_change_and_nothing_else(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    train(tmp_path, *SHORT, "--name", "one")
    with serving(tmp_path) as server:
        import resource

        size = (tmp_path / "hotloop.db").stat().st_size
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size // 2, size // 2))
        reply = server.write("PATCH", "/api/rl/runs/one", {"note": "x" * 9000, "tags": ["y" * 99] * 50})
        assert reply.status in (200, 503)
        assert server.get("/api/rl/runs")["total"] == 1
        assert server.get("/healthz", Authorization=f"Bearer {TOKEN}") == {"ok": True}
