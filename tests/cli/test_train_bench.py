"""`hotloop bench train`, `ladder` and `solve` keep the JSON contract of benchmarks and refuse what makes no sense."""

import pytest

from tests.cli.command import complaint, hotloop, hotloop_json

BRIEFLY = ("--seconds", "0.001", "--repeats", "1")


@pytest.mark.parametrize(
    "cases", [("cartpole 8x128", "update 52"), pytest.param((), marks=pytest.mark.full)], ids=["some", "all"]
)
def test_train_gives_steps_per_second_and_the_share_of_the_peak(cases: tuple[str, ...]) -> None:
    machine, *rows, end = hotloop_json("bench", "train", *cases, "--no-peers", *BRIEFLY)
    assert machine["event"] == "machine"
    assert [row.pop("event") for row in rows] == ["row"] * len(rows)
    assert end["rows"] == rows
    names = [row["name"] for row in rows]
    if cases:
        assert names == ["cartpole 8x128 4x4", "update 52-128-128-36"]
    else:
        assert "cartpole 1024x64 4x4" in names
        assert "update 52-128-128-36" in names
    for row in rows:
        assert {"name", "value", "unit", "spread", "ratio"} <= row.keys()
        assert row["share_of_peak"] > 0


def test_solve_gives_seconds() -> None:
    *_, end = hotloop_json("bench", "solve", "cartpole", "--no-peers", "--seeds", "1")
    (row,) = end["rows"]
    assert (row["name"], row["unit"], row["solved"]) == ("cartpole hotloop", "s", 1)


def test_the_ladder_as_text() -> None:
    done = hotloop("bench", "ladder", *BRIEFLY)
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == ["baseline", "fast", "ultra-fast"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["train", "--seconds", "0"], "--seconds is 0: expected more than 0"),
        (["train", "--repeats", "0"], "--repeats is 0: expected 1 or more"),
        (["train", "pong", "--no-peers"], "no case has 'pong' in its name: cartpole 1024x64 4x4, "),
        (["ladder", "cartpol"], "did you mean 'cartpole'?"),
        (["solve", "taxi"], "there is no env 'taxi'"),
        (["solve", "--seeds", "0"], "--seeds is 0: expected 1 or more"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: list[str], what: str) -> None:
    assert what in complaint("bench", *arguments)


def test_tracking_is_measured_against_the_same_run_without() -> None:
    *_, end = hotloop_json("bench", "tracking", "--seconds", "0.05", "--repeats", "1")
    runs, around, reading = end["rows"][:2], end["rows"][2], end["rows"][3:]
    assert [row["name"] for row in runs] == ["32 envs x 64", "1024 envs x 64"]
    for row in runs:
        assert row["value"] > 0
        assert len(row["rounds"]) == len(row["rounds_without"]) == 1
        assert row["cost"] < 1
        assert row["beside"] < 1
        assert row["cost_interval"] is None
        # A run as short as this can be over before its recorder first writes.
        assert 0 <= row["cpu_share"] < 1
    assert len(around["rounds"]) == 1
    assert [row["name"] for row in reading] == [
        "hotloop --help",
        "list 1000 runs",
        "100000 points, terminal",
        "100000 points, PNG",
    ]
    assert all(len(row["rounds"]) == 1 for row in reading)
