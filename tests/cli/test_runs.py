"""`hotloop runs`: listing, showing, comparing, plotting, exporting and deleting, as a person would from the shell."""

import contextlib
import csv
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from tests.cli.command import complaint, hotloop_json
from tests.cli.command import hotloop as command

QUICK: dict[str, Any] = {
    "runner.num_envs": 8,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "ppo.epochs": 4,
    "track.interval": 4,
    "train.until": None,
    "train.evaluate_episodes": 4,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three seeds of one setting, and one run of another."""
    path = tmp_path_factory.mktemp("home")
    for seed in range(3):
        hotloop.train("cartpole", steps=4096, seed=seed, config=QUICK, name=f"plain-{seed}", home=path)
    hotloop.train("cartpole", steps=2048, config={**QUICK, "ppo.epochs": 2}, name="other", home=path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLOOP_HOME", str(path))
        patch.delenv("HOTLOOP_STORE", raising=False)
        yield path


def listed(*arguments: str) -> list[str]:
    return [event["name"] for event in hotloop_json("runs", "list", *arguments)[:-1]]


def test_runs_are_listed_newest_first(home: Path) -> None:
    assert listed() == ["other", "plain-2", "plain-1", "plain-0"]
    lines = command("runs", "list").stdout.splitlines()
    assert lines[0].split()[:4] == ["id", "name", "env", "seed"]
    assert lines[1].split()[1:5] == ["other", "cartpole", "0", "completed"]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (["seed=1"], ["plain-1"]),
        (["seed>=1", "--sort", "seed"], ["plain-1", "plain-2"]),
        (["ppo.epochs=2"], ["other"]),
        (["name=plain-*", "seed!=0", "--sort", "-name"], ["plain-2", "plain-1"]),
        (["steps<4000"], ["other"]),
        (["--sort", "steps", "--limit", "1"], ["other"]),
        (["status=failed"], []),
        (["explained_variance<100", "name=o*"], ["other"]),
    ],
)
def test_runs_are_filtered_and_sorted_by_columns_settings_and_metrics(
    home: Path, filters: list[str], names: list[str]
) -> None:
    assert listed(*filters) == names


def test_columns_are_chosen(home: Path) -> None:
    (row, _) = hotloop_json("runs", "list", "name=other", "--columns", "name,ppo.epochs,entropy,return")
    assert row["ppo.epochs"] == 2
    assert 0 < row["entropy"] < 0.7
    assert row["return"] > 0


def test_a_run_is_shown_with_everything(home: Path) -> None:
    (reports,) = hotloop_json("runs", "show", "plain-0")
    assert reports["config"]["train"]["seed"] == 0
    assert reports["checkpoints"][-1]["path"] == "checkpoints/4096"
    assert reports["metrics"]["kl"] is not None
    words = command("runs", "show", reports["id"][:6]).stdout
    assert words.startswith(f"plain-0  {reports['id']}\ncartpole, seed 0: completed (steps)")


def test_seeds_are_compared_as_mean_and_spread(home: Path) -> None:
    first, second, end = hotloop_json("runs", "compare", "plain-*", "other", "--metrics", "entropy")
    assert (end["groups"], end["runs"]) == (2, 4)
    assert sorted(first["seeds"]) == [0, 1, 2]
    rows = hotloop_json("runs", "list", "name=plain-*", "--columns", "name,entropy")[:-1]
    values = [row["entropy"] for row in rows]
    assert first["metrics"]["entropy"]["mean"] == pytest.approx(sum(values) / 3)
    assert first["metrics"]["entropy"]["std"] > 0
    assert (first["settings"]["ppo.epochs"], second["settings"]["ppo.epochs"]) == (4, 2)
    words = command("runs", "compare", "plain-*", "other").stdout
    assert "A: 3 seeds" in words
    assert "ppo.epochs" in words
    assert "The settings are the same." in command("runs", "compare", "plain-0", "plain-1").stdout


def test_a_curve_is_drawn_in_the_terminal(home: Path) -> None:
    drawn = command("runs", "plot", "plain-0", "other", "--metric", "entropy", "--smooth", "0.5").stdout
    assert drawn.startswith("entropy over steps\n")
    assert sum(0x2800 < ord(character) < 0x2900 for character in drawn) > 50
    assert "── plain-0" in drawn
    timed = hotloop_json("runs", "plot", "plain-0", "--x", "time")
    assert 1 <= len(timed[0]["x"]) <= 8
    assert 0 <= timed[0]["x"][0] < 60


def test_a_curve_can_begin_where_it_gets_interesting(home: Path) -> None:
    (every, _) = hotloop_json("runs", "plot", "plain-0", "--metric", "entropy")
    low = sorted(every["mean"])[2]
    (good, _) = hotloop_json("runs", "plot", "plain-0", "--metric", "entropy", "--low", repr(low))
    assert good["mean"] == [value for value in every["mean"] if value >= low]


def test_a_curve_is_drawn_as_a_picture(home: Path, tmp_path: Path) -> None:
    from PIL import Image

    file = tmp_path / "curve.png"
    done = command("runs", "plot", "plain-0", "plain-1", "plain-2", "--group", "--smooth", "0.8", "--png", str(file))
    assert done.returncode == 0, done.stderr
    with Image.open(file) as picture:
        assert picture.size == (1080, 600)
        assert len(np.unique(np.asarray(picture.convert("L")))) > 20


def test_runs_are_exported(home: Path, tmp_path: Path) -> None:
    (end,) = hotloop_json("runs", "export", "plain-0", "other", "--to", str(tmp_path / "points.csv"))
    with (tmp_path / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == end["points"]
    assert {row["name"] for row in rows} == {"plain-0", "other"}
    hotloop_json("runs", "export", "plain-0", "--to", str(tmp_path / "all.json"))
    (reports,) = json.loads((tmp_path / "all.json").read_text())
    exported = {int(row["step"]): float(row["value"]) for row in rows if (row["name"], row["key"]) == ("plain-0", "kl")}
    assert {step: value for step, _, value in reports["metrics"]["kl"]} == exported
    assert len(reports["episodes"]) == 8


def test_runs_are_exported_to_parquet_where_pyarrow_is(home: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (end,) = hotloop_json("runs", "export", "other", "--to", str(tmp_path / "points.parquet"))
    assert parquet.read_table(tmp_path / "points.parquet").num_rows == end["points"]


def test_an_evaluation_is_recorded_with_the_run(home: Path) -> None:
    (found,) = hotloop_json("eval", "plain-1", "env.length=0.7", "--episodes", "7", "--stochastic")
    assert found["return_min"] <= found["return_median"] <= found["return_max"]
    assert found["length_min"] <= found["length_mean"] <= found["length_max"]
    assert "success" in found["metrics"]
    (reports,) = hotloop_json("runs", "show", "plain-1")
    (kept,) = [row for row in reports["evaluations"] if row["source"] == "eval"]
    assert (kept["mean"], kept["episodes"], kept["facts"]["deterministic"]) == (found["mean"], 7, False)
    assert kept["facts"]["options"] == {"length": 0.7}


def test_how_an_evaluation_was_made_is_said(home: Path) -> None:
    words = command("eval", "other", "env.length=0.7", "--episodes", "3", "--seed", "5", "--stochastic").stdout
    assert words.startswith("cartpole (env.length=0.7, drawn actions) at step 2048: mean return ")
    (end,) = hotloop_json("eval", "other", "--episodes", "2", "--no-keep")
    assert (end["seed"], end["deterministic"], end["options"]) == (0, True, {})
    shown = command("runs", "show", "other").stdout
    assert "evaluation at step 2.05 k: " in shown
    assert "evaluation at step 2.05 k by hotloop eval (env.length=0.7, seed 5, drawn actions): " in shown


def test_what_a_table_earns_is_shown_as_exact(home: Path) -> None:
    config = {"train.algorithm": "q-learning", "tabular.iteration": 1024, "train.until": None}
    run = hotloop.train("frozen-lake", steps=1024, config=config, name="table", home=home)
    shown = command("runs", "show", "table").stdout
    assert re.search(r"^evaluation at step 1\.02 k: \S+ exactly$", shown, re.MULTILINE)
    shutil.rmtree(run.path)
    command("runs", "delete", "table", "--yes")


def test_options_that_were_left_as_they_are_are_known(home: Path) -> None:
    assert listed("env.length=0.5") == ["other", "plain-2", "plain-1", "plain-0"]
    assert listed("env.length=0.7") == []
    hotloop.train("cartpole", steps=1024, config={**QUICK, "env.length": 0.7}, name="longer", home=home)
    hotloop.train("catch", steps=1024, config={**QUICK, "policy.encoder": "auto"}, name="catching", home=home)
    one, two, _ = hotloop_json("runs", "compare", "longer", "other")
    assert (one["settings"]["env.length"], two["settings"]["env.length"]) == (0.7, 0.5)
    _, three, _ = hotloop_json("runs", "compare", "longer", "catching")
    assert three["settings"]["env.name"] == "catch"
    assert "env.length" not in three["settings"]
    assert "env: name=cartpole, max_steps=500, " in command("runs", "show", "other").stdout
    command("runs", "delete", "longer", "catching", "--yes")


def test_times_have_milliseconds(home: Path) -> None:
    (reports,) = hotloop_json("runs", "show", "plain-0")
    (row, _) = hotloop_json("runs", "list", "name=plain-0", "--columns", "created")
    assert reports["created"] == row["created"]
    assert reports["checkpoints"][-1]["time"] % 1


def test_the_best_episodes_are_named_and_can_be_shown_again(home: Path) -> None:
    (reports,) = hotloop_json("runs", "show", "plain-0")
    assert len(reports["replays"]) == 3
    assert f"best episodes, for hotloop play --replay: replays/{reports['replays'][0]}, " in command("runs", "show", "plain-0").stdout  # fmt: skip # noqa: E501
    for name in reports["replays"]:
        hotloop_json("play", "--replay", str(home / "runs" / "plain-0" / "replays" / name))


def test_names_with_a_star_mean_all_that_fit(home: Path, tmp_path: Path) -> None:
    (*curves, _) = hotloop_json("runs", "plot", "plain-*", "plain-0")
    assert sorted(curve["title"] for curve in curves) == ["plain-0", "plain-1", "plain-2"]
    (end,) = hotloop_json("runs", "export", "p*", "other", "--to", str(tmp_path / "points.csv"))
    assert end["runs"] == 4
    for number in range(2):
        hotloop.train("cartpole", steps=1024, config=QUICK, name=f"unwanted-{number}", home=home)
    command("runs", "delete", "unwanted-*", "--yes")
    assert sorted(listed()) == ["other", "plain-0", "plain-1", "plain-2"]


def on_terminal(columns: int, *arguments: str) -> list[str]:
    """Return the output of a command on a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    call = [sys.executable, "-m", "hotloop", *arguments]
    with subprocess.Popen(call, stdout=theirs, stderr=subprocess.PIPE, env=environment):
        os.close(theirs)
        said = b""
        # Linux ends a terminal whose other side is closed with an error.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                said += part
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).splitlines()


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_list_fits_the_terminal(home: Path, columns: int) -> None:
    lines = on_terminal(columns, "runs", "list")
    assert max(map(len, lines)) <= columns
    assert {"name", "status", "return", "best"} <= set(lines[0].split())
    assert ("seconds" in lines[0]) == (columns == 200)


@pytest.mark.parametrize("columns", [10, 40, 80])
def test_a_curve_and_all_about_a_run_fit_the_terminal(home: Path, columns: int) -> None:
    drawn = on_terminal(columns, "runs", "plot", "plain-0", "--metric", "entropy")
    assert max(map(len, drawn)) <= max(columns, 24)
    if columns == 80:
        lines = on_terminal(columns, "runs", "show", "plain-0")
        settings = lines[lines.index("settings:") :]
        assert max(map(len, settings)) <= columns
        assert " ".join(" ".join(settings).split()).count("=") == len(flat_settings("plain-0"))


def flat_settings(run: str) -> list[str]:
    (reports,) = hotloop_json("runs", "show", run)
    return [key for part in reports["config"].values() for key in part]


def test_the_scale_beside_a_flat_line_is_true(home: Path) -> None:
    drawn = command("runs", "plot", "plain-0", "--metric", "epochs").stdout.splitlines()
    (line,) = [line for line in drawn if any(0x2800 < ord(character) < 0x2900 for character in line)]
    assert float(line.split()[0]) == 4


def test_a_plot_of_one_record_says_why_nothing_is_seen(home: Path) -> None:
    config = {**QUICK, "track.interval": 100}
    hotloop.train("cartpole", steps=1024, config=config, name="short", home=home)
    assert "a smaller track.interval makes more" in command("runs", "plot", "short").stderr
    assert "track.interval" not in command("runs", "plot", "plain-0").stderr
    command("runs", "delete", "short", "--yes")


def test_last_is_the_run_that_began_last_for_every_command(home: Path) -> None:
    hotloop.train(resume=home / "runs" / "plain-0", steps=4608)
    (shown,) = hotloop_json("runs", "show", "last")
    (played,) = hotloop_json("eval", "last", "--episodes", "1", "--no-keep")
    assert shown["name"] == played["run"] == "other"


def test_eval_refuses_changes_that_are_none_of_the_env(home: Path) -> None:
    assert "Did you mean 'env.length'?" in complaint("eval", "plain-0", "env.lenth=1")
    assert "only options of the env" in complaint("eval", "plain-0", "ppo.epochs=3")


def test_a_run_is_deleted_only_if_that_is_said(home: Path) -> None:
    run = hotloop.train("cartpole", steps=1024, config=QUICK, name="unwanted", home=home)
    assert "confirm with --yes" in complaint("runs", "delete", "unwanted")
    assert run.path.exists()
    assert command("runs", "delete", "unwanted", "--yes").stdout == "deleted unwanted\n"
    assert not run.path.exists()
    assert "unwanted" not in listed()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["list", "nonsense"], "'nonsense' is no filter"),
        (["list", "bets=3"], "no run has 'bets': it is no column, no setting and no metric; did you mean 'best'?"),
        (["list", "steps=many"], "'many' is no number"),
        (["list", "--limit", "0"], "--limit is 0"),
        (["show", "nobody"], "there is no run 'nobody'"),
        (["show", "plain"], ": say more of the name or id"),
        (["plot", "plain-0", "--metric", "entopy"], "did you mean 'entropy'?"),
        (["plot", "plain-0", "--smooth", "1"], "--smooth is 1"),
        (["plot", "plain-0", "--low", "1e9"], "the run 'plain-0' has no return_recent of 1e+09 or more"),
        (["plot", "plain-0", "--x", "epoch"], "--x is 'epoch': expected step or time"),
        (["export", "plain-0", "--to", "x.txt"], "expected a name that ends in .csv, .json, .parquet"),
        (["export", "plain-0", "--to", "/nowhere/x.csv"], "cannot write /nowhere/x.csv"),
        (["list", "--store", "/nowhere/x.db"], "there is no store /nowhere/x.db"),
        (["list", "--store", "postgresql://tester@127.0.0.1:1/x"], "cannot be reached"),
        (["compare", "nothing*"], "no run has a name like 'nothing*'"),
        (["delete", "nothing*", "--yes"], "no run has a name like 'nothing*'"),
    ],
)
def test_what_cannot_be_done_is_said(home: Path, arguments: list[str], what: str) -> None:
    assert what in complaint("runs", *arguments)


def test_a_home_without_runs_says_how_to_make_one(tmp_path: Path) -> None:
    done = command("runs", "list", HOTLOOP_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "")
    assert "'hotloop train cartpole' makes one" in done.stderr


def test_nine_runs_and_their_settings_fit_the_terminal(home: Path) -> None:
    names = [f"one-of-nine-runs-{number}" for number in range(9)]
    for number, name in enumerate(names):
        config = {**QUICK, "ppo.gamma": round(0.9 + number / 100, 2), "train.evaluate_episodes": 0}
        hotloop.train("cartpole", steps=1024, config=config, name=name, home=home)
    lines = on_terminal(80, "runs", "compare", "one-of-nine-*")
    assert max(map(len, lines)) <= 80
    (rows,) = [[line for line in lines if line.startswith("ppo.gamma")]]
    assert sorted(value for row in rows for value in row.split()[1:]) == [
        str(round(0.9 + i / 100, 2)) for i in range(9)
    ]
    drawn = on_terminal(80, "runs", "plot", "one-of-nine-*")
    assert max(map(len, drawn)) <= 80
    assert len(drawn) < 24
    assert f"── {names[3]} (ppo.gamma=0.93)" in "\n".join(drawn)
    command("runs", "delete", "one-of-nine-*", "--yes")


def shorten(run: Path, steps: int) -> None:
    """Leave only the records up to a step in a run's journal, and make the store read it again."""
    from hotloop.tracking import journal

    lines = [line.event for line in journal.read_lines(run / journal.NAME)]
    kept = [event for event in lines if event is not None and event["steps"] <= steps]
    (run / journal.NAME).write_text("".join(json.dumps(event) + "\n" for event in kept))
    (run.parent.parent / "hotloop.db").unlink()


def test_seeds_of_unequal_length_are_averaged_with_their_number(home: Path) -> None:
    for name, seed in (("unequal-0", 0), ("unequal-1", 1), ("unequal-again", 1)):
        hotloop.train("cartpole", steps=2048, seed=seed, config=QUICK, name=name, home=home)
    # The same settings, interrupted half way.
    shorten(home / "runs" / "unequal-0", 1024)
    first, second, _ = hotloop_json("runs", "plot", "unequal-0", "unequal-1", "unequal-again", "--group")
    assert first["title"] == "cartpole, 2 seeds, n=1 from 1.03 k"
    assert second["title"] == "unequal-again"
    assert (first["count"][0], first["count"][-1], first["x"][-1]) == (2, 1, 2048)
    command("runs", "delete", "unequal-*", "--yes")


def test_a_terminal_with_ascii_only_gets_a_plot_too(home: Path) -> None:
    done = command("runs", "plot", "plain-0", "--metric", "entropy", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert done.stdout.count("*") > 20
    assert "-- plain-0" in done.stdout
    compared = command("runs", "compare", "plain-*", PYTHONIOENCODING="ascii")
    assert (compared.returncode, compared.stdout.isascii()) == (0, True)


def test_no_text_of_a_journal_controls_the_terminal(home: Path) -> None:
    from hotloop.tracking import journal

    run = hotloop.train("cartpole", steps=1024, config=QUICK, name="hostile", home=home)
    what = "\x1b]0;owned\x07\x1b[2J\r\u202eevil"
    journal.append_one(run.path / journal.NAME, {"event": "trouble", "steps": 1024, "what": what})
    file = run.path / journal.NAME
    file.write_bytes(file.read_bytes().replace(b'"run":"hostile"', b'"run":"hostile\\u001b[31m' + b"x" * 900 + b'"'))
    (home / "hotloop.db").unlink()
    for arguments in (["list"], ["show", "hostile"], ["plot", "hostile"], ["compare", "hostile", "plain-0"]):
        done = command("runs", *arguments)
        assert done.returncode == 0, done.stderr
        assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stdout + done.stderr) is None
    assert r"\x1b]0;owned\x07\x1b[2J\r\u202eevil" in command("runs", "show", "hostile").stdout
    assert max(map(len, command("runs", "list").stdout.splitlines())) < 300
    assert "hostile" in complaint("runs", "show", "hostile\x1b[2J")
    command("runs", "delete", "hostile", "--yes")


def test_deleting_that_is_declined_ends_quietly(home: Path) -> None:
    ours, theirs = pty.openpty()
    call = [sys.executable, "-m", "hotloop", "runs", "delete", "plain-0"]
    with subprocess.Popen(call, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.write(ours, b"n\n")
        _, errors = process.communicate()
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0
    assert re.fullmatch(rf"plain-0: cartpole, \d+ steps, {home / 'runs' / 'plain-0'}", errors.decode().strip())
    assert "plain-0" in listed()


@pytest.mark.parametrize("password", ["se%cret", "se%25cret", "se/cr:et", "se@cret"])
def test_a_password_is_never_shown(home: Path, password: str) -> None:
    said = complaint("runs", "list", "--store", f"postgresql://me:{password}@127.0.0.1:1/x")
    for part in (password, "cret", "cr:et"):
        assert part not in said
    assert "127.0.0.1" in said
