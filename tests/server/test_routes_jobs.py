"""Routes of jobs, on a real server."""

from pathlib import Path

import pytest

from hotloop.orchestrator.queue import Queue
from tests.orchestrator.jobs import make_request
from tests.server.live_server import TOKEN, Server, serving

WRITING = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_jobs_are_listed_shown_queued_and_changed(home: Path) -> None:
    home.mkdir()
    with Queue(None, home) as queue:
        job = queue.submit(make_request("a", priority=3))
    with serving(home) as server:
        page = server.get("/api/rl/jobs?state=queued")
        assert [entry["number"] for entry in page["jobs"]] == [job.number]
        assert (page["counts"], page["orchestrator"]) == ({"queued": 1}, None)
        shown = server.get(f"/api/rl/jobs/{job.number}")
        assert [event["after"] for event in shown["events"]] == ["queued"]
        _submits(server)
        assert server.request("POST", f"/api/rl/jobs/{job.number}/cancel", {}).status == 401
        changed = server.request("POST", f"/api/rl/jobs/{job.number}/cancel", {}, WRITING)
        assert (changed.status, changed.json) == (200, {"job": job.number, "state": "cancelled"})
        assert server.request("POST", f"/api/rl/jobs/{job.number}/pause", {}, WRITING).status == 409
        assert server.request("POST", "/api/rl/jobs/99/pause", {}, WRITING).status == 404
        assert server.request("GET", "/api/rl/jobs/99").status == 404
        metrics = server.request("GET", "/metrics").body.decode()
        assert 'hotloop_jobs{state="cancelled"} 1.0' in metrics


def _submits(server: Server) -> None:
    body = {"env": "cartpole", "config": {"train.until": None, "train.evaluate_episodes": 0}, "steps": 4096, "seed": 7}
    assert server.request("POST", "/api/rl/jobs", body).status == 401
    first = server.request("POST", "/api/rl/jobs", body, WRITING)
    assert (first.status, first.json["state"]) == (201, "queued")
    assert server.request("POST", "/api/rl/jobs", body, WRITING).json == first.json
    refused = server.request("POST", "/api/rl/jobs", {**body, "env": "somewhere.py:Env"}, WRITING)
    assert (refused.status, "name code" in refused.json["detail"]) == (403, True)
    for config in (
        {"policy.module": "os:system"},
        {"runner.worker_python": "/tmp/python"},
        {"track.trackers": ["wandb"]},
    ):
        refused = server.write("POST", "/api/rl/jobs", {"env": "cartpole", "config": config})
        assert (refused.status, "name code" in refused.json["detail"]) == (403, True), refused
    unknown = server.write("POST", "/api/rl/jobs", {"env": "cartpool"})
    assert (unknown.status, "cartpole" in unknown.json["detail"]) == (422, True)
    wrong = server.request("POST", "/api/rl/jobs", {**body, "config": {"ppo.epoch": 1}}, WRITING)
    assert (wrong.status, "ppo.epochs" in wrong.json["detail"]) == (422, True)
