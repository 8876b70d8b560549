"""Routes of sweeps, on a real server."""

from pathlib import Path

from hotloop.sweeps.api import finish
from hotloop.sweeps.display import Silent
from hotloop.training.interrupts import Interrupts
from tests.server.live_server import serving
from tests.sweeps.small import new_sweep


def test_sweeps_and_their_trials_are_listed(tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, "mine", trials=4, sampler="sobol")
    assert finish(sweep, 2, Silent(), Interrupts())
    best = sweep.best
    assert best is not None
    with serving(tmp_path) as server:
        (listed,) = server.get("/api/rl/sweeps")["sweeps"]
        assert (listed["name"], listed["status"], listed["best"]) == ("mine", "completed", best.index)
        assert server.get("/api/rl/sweeps/mine") == listed == server.get(f"/api/rl/sweeps/{listed['number']}")
        page = server.get("/api/rl/sweeps/mine/trials?sort=-value&limit=2")
        assert page["total"] == 4
        values = sorted((trial.value or 0.0 for trial in sweep.trials), reverse=True)
        assert [row["value"] for row in page["trials"]] == values[:2]
        rest = server.get("/api/rl/sweeps/mine/trials?sort=-value&offset=2")["trials"]
        assert [row["value"] for row in rest] == values[2:]
        assert server.request("GET", "/api/rl/sweeps/other").status == 404
        assert server.request("GET", "/api/rl/sweeps/mine/trials?sort=settings").status == 400
