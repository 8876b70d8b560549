"""Runs over HTTP: lists, filters, groups, marks, and the rows of a run."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from hotloop.tracking.store import Store
from tests.server.live_server import Server, serving, train


def names(page: dict[str, Any]) -> list[str]:
    return [row["name"] for row in page["runs"]]


def test_runs_are_listed_filtered_and_sorted_as_on_the_command_line(served: Server) -> None:
    everything = served.get("/api/rl/runs")
    assert (names(everything), everything["total"], everything["stale"]) == (["other", "seed-2", "seed-1"], 3, False)
    assert names(served.get("/api/rl/runs?where=ppo.epochs%3D2")) == ["other"]
    assert names(served.get("/api/rl/runs?where=seed%3D1&where=name!%3Dother")) == ["seed-1"]
    assert names(served.get("/api/rl/runs?q=seed&sort=name")) == ["seed-1", "seed-2"]
    row = served.get("/api/rl/runs?q=other&columns=ppo.epochs,kl")["runs"][0]
    assert row["values"][0] == 2
    assert isinstance(row["values"][1], float)
    assert row["limit"] == 100_000
    assert 2 <= len(row["sparkline"]) <= 60
    assert row["seed"] == "1"


def test_pages_go_on_where_the_last_one_ended(served: Server) -> None:
    first = served.get("/api/rl/runs?sort=name&limit=2")
    assert names(first) == ["other", "seed-1"]
    second = served.get(f"/api/rl/runs?sort=name&limit=2&cursor={first['cursor']}")
    assert (names(second), second["cursor"]) == (["seed-2"], None)


def test_sessions_are_runs(served: Server) -> None:
    assert served.get("/api/rl/sessions") == served.get("/api/rl/runs")
    assert served.get("/api/rl/sessions/other/metrics") == served.get("/api/rl/runs/other/metrics")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/rl/runs?where=nonsense", 400, "is no filter"),
        ("/api/rl/runs?where=bset%3D1", 400, "did you mean 'best'?"),
        ("/api/rl/runs?cursor=x", 400, "cursor"),
        ("/api/rl/runs?limit=0", 422, "limit"),
        ("/api/rl/runs/othr", 404, "did you mean 'other'?"),
        ("/api/rl/runs/seed", 409, "could be any of"),
        ("/api/rl/series?run=other&metric=kl&points=1", 422, "points"),
        ("/api/rl/series?run=other&metric=kl&from=nan", 422, "from"),
    ],
)
def test_mistakes_are_explained_in_the_words_of_the_command_line(
    served: Server, path: str, status: int, words: str
) -> None:
    reply = served.request("GET", path)
    assert reply.status == status
    assert words in reply.json["detail"]


def test_an_ambiguous_name_comes_with_its_candidates(served: Server) -> None:
    assert sorted(served.request("GET", "/api/rl/runs/seed").json["near"]) == ["seed-1", "seed-2"]


def test_seeds_of_one_config_are_a_group(served: Server) -> None:
    groups = {len(group["runs"]): group for group in served.get("/api/rl/groups")["groups"]}
    assert sorted(groups) == [1, 2]
    assert groups[1]["settings"]["ppo.epochs"] == 2
    assert groups[2]["metrics"]["best"]["n"] == 2
    by_epochs = served.get("/api/rl/groups?by=seed&q=seed")["groups"]
    assert [len(group["runs"]) for group in by_epochs] == [2]
    assert len(served.get("/api/rl/groups?by=ppo.epochs")["groups"]) == 2


def test_a_run_is_shown_in_full(served: Server, trained: Path) -> None:
    run = served.get("/api/rl/runs/other")
    assert run["config"]["ppo"]["epochs"] == 2
    assert {"key": "ppo.epochs", "value": 2, "default": 1} in run["changed"]
    assert run["commands"]["resume"] == "hotloop train --resume other"
    assert (run["learner"], run["exact"], run["folder_here"]) == ("native", True, True)
    assert run["path"] == str(trained / "runs" / "other")


def test_rows_of_a_run_come_in_pages(served: Server) -> None:
    whole = served.get("/api/rl/runs/other/episodes")["episodes"]
    first = served.get("/api/rl/runs/other/episodes?limit=2")
    rest = served.get(f"/api/rl/runs/other/episodes?after={first['next']}")
    assert first["episodes"] + rest["episodes"] == whole
    assert len(first["episodes"]) == 2
    assert rest["next"] is None
    assert served.get("/api/rl/runs/other/checkpoints")["checkpoints"][-1]["exists"] is True


def test_metrics_have_their_extremes(served: Server) -> None:
    metrics = {metric["name"]: metric for metric in served.get("/api/rl/runs/other/metrics")["metrics"]}
    brief = {m["name"]: m for m in served.get("/api/rl/runs/other/metrics?brief=true")["metrics"]}
    assert brief.keys() == metrics.keys()
    found = metrics["return_recent"]
    series = served.get("/api/rl/series?run=other&metric=return_recent")["series"][0]
    assert (found["lowest"], found["highest"], found["count"]) == (
        min(series["low"]),
        max(series["high"]),
        series["total"],
    )
    assert brief["return_recent"]["last"] == found["last"] == series["mean"][-1]


def test_marks_stay_and_are_seen_by_every_client(tmp_path: Path) -> None:
    train(tmp_path, "cartpole", "--steps", "20k", "--until", "1000", "--name", "marked")
    marks = {"tags": ["good", "<b>"], "note": "look \u202e here", "pinned": True, "hidden": True}
    with serving(tmp_path) as server:
        assert server.write("PATCH", "/api/rl/runs/marked", marks).status == 200
        assert server.write("PATCH", "/api/rl/runs/marked", {"pinned": False}).json["note"] == marks["note"]
    with serving(tmp_path) as server:
        row = server.get("/api/rl/runs")["runs"][0]
        assert {key: row[key] for key in marks} == {**marks, "pinned": False}
        assert server.write("DELETE", "/api/rl/runs/marked").status == 204
    with Store(home=tmp_path) as store:
        assert store.query("SELECT count(*) FROM marks") == [(0,)]


def test_prometheus_reads_what_is_exposed(served: Server) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    families = {
        family.name: family
        for family in text_string_to_metric_families(served.request("GET", "/metrics").body.decode())
    }
    assert {sample.labels["status"]: sample.value for sample in families["hotloop_runs"].samples}["completed"] == 3
    steps = {sample.labels["run"]: sample.value for sample in families["hotloop_run_steps"].samples}
    assert steps["other"] >= 100_000
    assert families["hotloop_store_up"].samples[0].value == 1


def test_the_six_addresses_that_users_bring_along_answer(served: Server) -> None:
    assert served.get("/api/rl/status")["runs"] == {"completed": 3}
    assert served.get("/api/rl/sweeps") == {"sweeps": [], "next": None}
    (group, *_) = served.get("/api/rl/performance/summary")["groups"]
    assert (group["env"], group["learner"], group["runs"]) == ("cartpole", "native", 3)
    assert sum(group["split"].values()) == pytest.approx(1.0)
    assert len(served.get("/api/rl/performance/trends")["trends"][0]["points"]) == 3


def read_parquet(served: Server, query: str) -> list[dict[str, Any]]:
    parquet = pytest.importorskip("pyarrow.parquet")
    reply = served.request("GET", f"/api/rl/export?{query}")
    assert reply.headers["content-type"] == "application/vnd.apache.parquet"
    found: list[dict[str, Any]] = parquet.read_table(io.BytesIO(reply.body)).to_pylist()
    return found


def test_every_point_is_exported(served: Server) -> None:
    lines = served.request("GET", "/api/rl/export?run=other&run=seed-1").body.decode().splitlines()
    counts = [
        sum(metric["count"] for metric in served.get(f"/api/rl/runs/{run}/metrics")["metrics"])
        for run in ("other", "seed-1")
    ]
    assert len(lines) == 1 + sum(counts)
    exported = json.loads(served.request("GET", "/api/rl/export?run=other&format=json").body)
    assert len(exported["rows"]) == counts[0]
    rows = [{**row, "step": int(row["step"]), "time": float(row["time"]), "value": float(row["value"])}
            for row in csv.DictReader(lines) if row["name"] == "other"]  # fmt: skip
    assert read_parquet(served, "run=other&format=parquet") == rows
    assert {row["metric"] for row in read_parquet(served, "run=other&format=parquet&what=shown&metric=kl")} == {"kl"}
    shown = served.request("GET", "/api/rl/export?run=other&what=shown&metric=kl").body.decode().splitlines()
    assert len(shown) == 1 + len(served.get("/api/rl/series?run=other&metric=kl")["series"][0]["first"])
