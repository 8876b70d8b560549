"""`hotloop play`: watching, filming, keeping and replaying episodes."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import complaint, hotloop, hotloop_json


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two runs, made once."""
    path = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLOOP_HOME", str(path))
        hotloop_json("train", "cartpole", "--name", "solved")
        hotloop_json("train", "tag", "--name", "chasers", "--steps", "8192", "train.until=null")
        yield path


def test_chance_plays_an_env_frame_by_frame() -> None:
    done = hotloop("play", "frozen-lake", "--seed", "1")
    assert done.returncode == 0
    frames = done.stdout.strip().split("\n\n")
    assert frames[0].splitlines()[0].startswith("[S]")
    assert "frozen-lake, random policy · step 0 · return 0" in frames[0]
    assert len(frames) > 2
    assert frames[-1].splitlines()[-1].split(" · ")[2] in ("terminated", "truncated")
    assert hotloop("play", "frozen-lake", "--seed", "1").stdout == done.stdout
    assert hotloop("play", "frozen-lake", "--seed", "2").stdout != done.stdout


def test_options_of_the_env_are_taken() -> None:
    done = hotloop("play", "frozen-lake", "env.map=SF/FG", "--steps", "1")
    assert done.stdout.splitlines()[:2] == ["[S] ·", " ·  G"]


def test_a_runs_policy_plays_what_eval_counts(home: Path) -> None:
    *played, end = hotloop_json("play", "solved", "--episodes", "3", "--seed", "5")
    (counted,) = hotloop_json("eval", "solved", "--episodes", "3", "--seed", "5")
    assert [event["event"] for event in played] == ["episode"] * 3
    assert end["mean"] == counted["mean"] == 500
    assert end["run"] == "solved"


def test_several_agents_play(home: Path) -> None:
    episode, end = hotloop_json("play", "chasers", "--stochastic")
    assert len(episode["returns"]) == 4
    assert episode["return"] == pytest.approx(sum(episode["returns"]))
    assert end["by"].endswith("sampled actions")


def test_the_best_of_several_is_saved_and_replayed(home: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "best.replay")
    *played, end = hotloop_json("play", "cartpole", "--episodes", "4", "--save", path)
    assert end["saved"] == path
    best, _ = hotloop_json("play", "--replay", path)
    assert best["return"] == max(event["return"] for event in played)
    shown = hotloop("play", "--replay", path)
    assert f"step {best['steps']} " in shown.stdout.strip().split("\n\n")[-1]
    assert "cartpole, replay · step 0" in shown.stdout


def test_a_run_has_replays_of_its_best_evaluation_episodes(home: Path) -> None:
    found = sorted((home / "runs" / "solved" / "replays").iterdir())
    assert len(found) == 3
    episode, _ = hotloop_json("play", "--replay", str(found[0]))
    assert episode["return"] == 500


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_a_video_is_written(home: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"it.{kind}"
    done = hotloop("play", "solved", "--steps", "5", "--video", str(path))
    assert done.returncode == 0, done.stderr
    assert "episode 0: return 5 in 5 steps, stopped" in done.stdout
    assert "6 frames, 50 per second" in done.stderr
    assert path.stat().st_size > 1000


def on_a_terminal(*arguments: str, keys: bytes) -> str:
    """Output of `hotloop ARGUMENTS` on a terminal on which these keys are pressed, each after something was shown."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "hotloop", *arguments]
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env={**os.environ, "TERM": "xterm"}
    )
    os.close(follower)
    seen = b""
    waiting = list(keys)
    while select.select([leader], [], [], 60)[0]:
        try:
            got = os.read(leader, 65536)
        except OSError:
            break
        seen += got
        if waiting and b"step" in got:
            os.write(leader, bytes([waiting.pop(0)]))
    os.close(leader)
    assert process.wait() == 0, seen
    return seen.decode()


def test_steps_wait_for_keys_on_a_terminal() -> None:
    shown = on_a_terminal("play", "taxi", "--step", keys=b"  q")
    assert "step 2 " in shown
    assert "step 3 " not in shown


def test_frames_replace_each_other_on_a_terminal() -> None:
    shown = on_a_terminal("play", "tictactoe", "--pace", "100", keys=b"")
    assert "\x1b[1A" in shown
    assert "terminated" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["play"], "nothing to play"),
        (["play", "cartpole", "--replay", "x"], "leave out 'cartpole', or --replay"),
        (["play", "cartpol"], "there is no run and no env 'cartpol'; did you mean 'cartpole'?"),
        (["play", "cartpole", "--episodes", "0"], "--episodes is 0: expected 1 or more"),
        (["play", "cartpole", "--seed", "-1"], "--seed is -1: expected 0 or more"),
        (["play", "cartpole", "--pace", "-1"], "--pace is -1: expected 0 to 1000"),
        (["play", "cartpole", "ppo.epochs=1"], "only options of the env can be set here"),
        (["play", "cartpole", "env.gravitas=1"], 'did you mean "gravity"?'),
        (["play", "cartpole", "--step", "--json"], "--step waits for keys"),
        (["play", "cartpole", "--video", "x.avi"], "must end in .mp4 or .gif"),
        (["play", "cartpole", "--save", "/no/where/x"], "there is no folder /no/where"),
        (["play", "--replay", "/no/where"], "there is no replay /no/where"),
        (["play", "chasers", "env.size=9", "env.observation=grid"], "does not fit tag with env.size=9"),
    ],
)
def test_mistakes_are_errors_with_a_message(home: Path, arguments: list[str], words: str) -> None:
    assert words in complaint(*arguments)
