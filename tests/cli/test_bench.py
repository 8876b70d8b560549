"""`hotloop bench envs` keeps its JSON contract, prints a table, and refuses what cannot be measured."""

import os
from pathlib import Path

import pytest

from hotloop.bench.envs import IN_PYTHON
from hotloop.bench.peers import every_peer
from hotloop.cli import bench_common
from tests.cli.command import complaint, hotloop, hotloop_json

BRIEFLY = ("--num-envs", "2", "--threads", "1", "--seconds", "0.001", "--repeats", "2")


def test_json_ends_with_all_rows() -> None:
    machine, *rows, end = hotloop_json("bench", "envs", "cartpole", "recall", *BRIEFLY)
    assert machine["event"] == "machine"
    assert [row.pop("event") for row in rows] == ["row", "row"]
    assert end["rows"] == rows
    assert end["machine"]["isa"] == machine["isa"]
    assert [row["name"] for row in rows] == ["cartpole envs=2 threads=1", "recall envs=2 threads=1"]
    for row in rows:
        assert row["unit"] == "steps/s"
        assert row["value"] > 0
        assert row["spread"] >= 0
        assert all(ratio > 0 for ratio in row["ratio"].values())
    assert {"gymnasium-vector", "gymnasium-sync", "gymnasium-async"} <= rows[0]["ratio"].keys()
    assert rows[1]["ratio"] == {}


def test_no_peers_measures_only_us() -> None:
    *_, end = hotloop_json("bench", "envs", "cartpole", "--no-peers", *BRIEFLY)
    assert [row["ratio"] for row in end["rows"]] == [{}]
    assert "gymnasium" not in end["machine"]["versions"]


def test_lists_of_numbers_are_combined() -> None:
    numbers = ("--num-envs", "1,3", "--threads", "1,2", "--seconds", "0.001", "--repeats", "1", "--no-peers")
    *_, end = hotloop_json("bench", "envs", "taxi", *numbers)
    assert [(row["num_envs"], row["threads"]) for row in end["rows"]] == [(1, 1), (1, 2), (3, 1), (3, 2)]
    assert {row["spread"] for row in end["rows"]} == {None}


def test_all_envs_are_measured_if_none_is_named() -> None:
    *_, end = hotloop_json("bench", "envs", "--quick", "--no-peers", *BRIEFLY)
    *envs, _ = hotloop_json("envs")
    native = [env["name"] for env in envs if env["event"] == "env"]
    assert [row["env"] for row in end["rows"]] == [*native, *IN_PYTHON]


def test_people_get_a_table_and_the_facts_under_it() -> None:
    done = hotloop("bench", "envs", "pendulum", "--no-peers", *BRIEFLY)
    assert done.returncode == 0
    heading, row, *rest = [line for line in done.stdout.splitlines() if line]
    assert heading.split() == ["env", "envs", "threads", "steps/s", "spread"]
    assert row.startswith("pendulum")
    assert "cores" in rest[-1]
    assert "hotloop" in rest[-1]


def test_a_peer_that_is_broken_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "envpool.py").write_text("raise ImportError('it lacks a library')")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = hotloop("bench", "envs", "taxi", "--json", *BRIEFLY, PYTHONPATH=path)
    assert done.returncode == 0
    assert "EnvPool is left out, it cannot be imported: it lacks a library" in done.stderr
    assert '"gymnasium-sync"' in done.stdout
    assert "envpool" not in done.stdout


def test_a_peer_that_is_missing_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    peers = every_peer()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name == "gymnasium" else None)
    assert [peer.package for peer in bench_common.usable(peers)] == ["gymnasium"] * 3
    assert "pip install 'hotloop[bench]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["pendulun"], "there is no env 'pendulun'; did you mean 'pendulum'?"),
        (["--repeats", "0"], "--repeats is 0: expected 1 or more"),
        (["--repeats", "many"], "'--repeats'"),
        (["--seconds", "0"], "--seconds is 0: expected more than 0"),
        (["--seconds", "-1"], "--seconds is -1: expected more than 0"),
        (["--seconds", "nan"], "--seconds is nan: expected more than 0"),
        (["--num-envs", "-4"], "--num-envs is '-4': expected whole numbers from 1, separated by commas"),
        (["--num-envs", "0"], "--num-envs is '0': expected"),
        (["--num-envs", "1,,2"], "--num-envs is '1,,2': expected"),
        (["--num-envs", ""], "--num-envs is '': expected"),
        (["--threads", "two"], "--threads is 'two': expected"),
        (["--threads", "1.5"], "--threads is '1.5': expected"),
        (["--threads", "99999"], "99999"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: list[str], what: str) -> None:
    assert what in complaint("bench", "envs", *arguments, "--no-peers")
