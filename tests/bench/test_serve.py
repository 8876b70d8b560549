"""`hotloop bench serve` on a small store: every figure is measured."""

import pytest

from hotloop.bench import serve


def test_every_figure_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"RUNS": 20, "MANY_RUNS": 60, "POINTS": 5000, "LONG": 20_000, "STREAMS": 3, "LIVE_RUNS": 5}
    for name, size in small.items():
        monkeypatch.setattr(serve, name, size)
    rows = {row.name: row for row in serve.measure(quick=True, pages=False)}
    assert rows["list of 20 runs, first"].value > 0
    assert rows["list of 60 runs, p95"].unit == "ms"
    assert rows["2000 points of a metric, again"].goal == 30.0
    assert 0 < rows["store to client, p95"].value < 60
    assert rows["CPU at rest, no client"].value < 50
    assert rows["memory at rest"].as_json()["met"] is (rows["memory at rest"].value <= 90.0)
