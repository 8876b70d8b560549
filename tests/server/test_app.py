"""The application as a whole: its description, its health, and what it says where there is nothing."""

import json
from pathlib import Path

from hotloop.server.app import build_app
from tests.server.live_server import Server


def test_the_committed_description_is_current(repository: Path) -> None:
    kept = json.loads((repository / "dashboard" / "openapi.json").read_text())
    assert kept == json.loads(json.dumps(build_app().openapi())), (
        "run: hotloop serve --openapi > dashboard/openapi.json"
    )


def test_it_serves_its_description(served: Server) -> None:
    assert served.get("/openapi.json") == json.loads(json.dumps(build_app().openapi()))


def test_it_is_alive(served: Server) -> None:
    assert served.get("/healthz") == {"ok": True}


def test_an_unknown_address_of_the_api_is_a_problem_document(served: Server) -> None:
    reply = served.request("GET", "/api/rl/nothing")
    assert reply.status == 404
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["status"] == 404
    assert reply.json["instance"] == "/api/rl/nothing"


def test_the_same_answer_is_not_sent_twice(served: Server) -> None:
    first = served.request("GET", "/api/rl/runs")
    again = served.request("GET", "/api/rl/runs", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
