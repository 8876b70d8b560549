"""The suite `tabular` measures what it says."""

import ctypes
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from hotloop.bench.measure import Rate
from hotloop.bench.peers import plain_c
from hotloop.bench.tabular import Case, Row, mpirun, plan, plot
from tests.cli.command import complaint, hotloop, hotloop_json


def test_the_plan_has_every_algorithm_table_and_runtime() -> None:
    cases = plan("taxi", 3, quick=False, ranks=[1, 2])
    tables = {(a, b) for a in ("dense", "sparse") for b in ("f32", "f16")}
    assert {case.algorithm for case in cases} == {"q-learning", "sarsa", "expected-sarsa", "double-q-learning"}
    assert {(case.table, case.storage) for case in cases} == tables
    assert [case.workers for case in cases if case.runtime == "shared"] == [2, 3]
    assert [case.workers for case in cases if case.runtime == "mpi"] == [1, 2]


def test_a_plot_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [Row(Case("taxi"), Rate((1.0,)), 1), Row(Case("taxi", runtime="shared", workers=2), Rate((2.0,)), 1, 1.5)]
    plot(rows, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(mpirun() is None, reason="there is no mpirun with mpi4py")
def test_threads_and_ranks_are_compared_with_one() -> None:
    briefly = ("--quick", "--seconds", "0.02", "--repeats", "1", "--threads", "2", "--ranks", "1,2")
    *_, end = hotloop_json("bench", "tabular", "taxi", *briefly)
    found = {(row["runtime"], row["workers"]): row for row in end["rows"] if row["table"] == "dense"}
    for runtime in ("shared", "private", "mpi"):
        row = found[runtime, 2]
        assert row["speedup"] > 0
        assert row["efficiency"] == row["speedup"] / 2
    assert found["private", 2]["memory"] > found["one", 1]["memory"]
    assert end["rows"][0]["unit"] == "steps/s"


def test_the_table_is_whole_in_80_columns() -> None:
    briefly = ("--seconds", "0.002", "--repeats", "2", "--threads", "2", "--no-mpi")
    done = hotloop("bench", "tabular", *briefly, COLUMNS="80")
    heading, *rows = done.stdout.splitlines()
    assert "speed-up" in heading
    assert "…" not in done.stdout
    assert sum(row.count(" M ") for row in rows) >= 9
    assert "The usual loop in Python" in done.stdout
    peer = "dist_classicrl, 128 envs" if find_spec("dist_classicrl") else "dist_classicrl is left out"
    assert peer in done.stdout + done.stderr


def test_what_makes_no_sense_is_refused() -> None:
    assert "ENV is 'cartpole'" in complaint("bench", "tabular", "cartpole")
    assert "--threads is 0" in complaint("bench", "tabular", "--threads", "0")


def test_the_program_in_plain_c_learns_the_game() -> None:
    if reason := plain_c.missing():
        pytest.skip(reason)
    library = plain_c.load()
    library.advance(ctypes.c_int64(2_000_000))
    first = np.array((ctypes.c_float * 9).in_dll(library, "table"))
    # Who begins wins nearly always; the corners and the middle are worth most.
    assert 0.85 < first.max() < 1.0
    assert first.argmax() in (0, 2, 4, 6, 8)
