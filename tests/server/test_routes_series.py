"""Series and comparisons over HTTP."""

import csv
import io

from hotloop.server.routes_series import _csv
from tests.server.live_server import Server


def test_one_request_has_a_page_of_charts(served: Server) -> None:
    query = {"run": ["other", "seed-1"], "metric": ["kl", "entropy", "missing"], "points": 50}
    reply = served.request("POST", "/api/rl/series", query)
    assert reply.status == 200
    found = [(entry["label"], entry["metric"]) for entry in reply.json["series"]]
    assert found == [(run, metric) for run in ("other", "seed-1") for metric in ("kl", "entropy")]
    same = served.get("/api/rl/series?run=other&run=seed-1&metric=kl&metric=entropy&metric=missing&points=50")
    assert same == reply.json


def test_too_many_series_are_refused(served: Server) -> None:
    query = {"run": ["other", "seed-1"], "metric": [f"m{i}" for i in range(101)]}
    assert served.request("POST", "/api/rl/series", query).status == 400


def test_a_window_has_its_own_points_only(served: Server) -> None:
    whole = served.get("/api/rl/series?run=seed-1&metric=kl")["series"][0]
    low, high = whole["first"][2], whole["first"][4]
    part = served.get(f"/api/rl/series?run=seed-1&metric=kl&from={low}&to={high}")["series"][0]
    assert part["first"] == whole["first"][2:5]
    assert part["mean"] == whole["mean"][2:5]


def test_smoothing_knows_the_past_before_the_window(served: Server) -> None:
    whole = served.get("/api/rl/series?run=seed-1&metric=kl&smooth=0.9")["series"][0]
    low = whole["first"][3]
    part = served.get(f"/api/rl/series?run=seed-1&metric=kl&smooth=0.9&from={low}")["series"][0]
    assert part["smooth"] == whole["smooth"][3:]
    assert whole["mean"] == served.get("/api/rl/series?run=seed-1&metric=kl")["series"][0]["mean"]


def test_seeds_are_one_line_with_a_band(served: Server) -> None:
    (group,) = served.get("/api/rl/series?run=seed-1&run=seed-2&metric=return_recent&group=seed")["series"]
    singles = served.get("/api/rl/series?run=seed-1&run=seed-2&metric=return_recent")["series"]
    assert (group["run"], group["joined"], group["n"][0]) == (None, "step", 2)
    assert group["mean"][0] == sum(one["mean"][0] for one in singles) / 2
    assert [group["low"][0], group["high"][0]] == sorted(one["mean"][0] for one in singles)


def test_two_runs_are_compared_to_their_first_difference(served: Server) -> None:
    found = served.get("/api/rl/compare?run=seed-1&run=other")
    assert {setting["key"]: setting["values"] for setting in found["settings"]}["ppo.epochs"] == [1, 2]
    first = found["first_difference"]
    series = served.get("/api/rl/series?run=seed-1&run=other&metric=kl")["series"]
    assert first["step"] == series[0]["first"][0]
    assert {"name": "kl", "values": [series[0]["mean"][0], series[1]["mean"][0]]} in first["metrics"]
    scores = [change["score"] for change in found["changes"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) > 3


def test_a_run_does_not_differ_from_itself(served: Server) -> None:
    found = served.get("/api/rl/compare?run=seed-1&run=seed-1")
    assert (len(found["runs"]), found["first_difference"]) == (1, None)


def test_formulas_in_names_stay_text() -> None:
    rows = [("=1+1", "+x", "-y", "@z", 5, -1.5, "plain")]
    text = "".join(_csv(("a",) * 7, iter(rows)))
    assert list(csv.reader(io.StringIO(text)))[1] == ["'=1+1", "'+x", "'-y", "'@z", "5", "-1.5", "plain"]
