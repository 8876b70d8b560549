"""`hotloop play` with Python envs: watched, filmed, kept and replayed, by chance and by a run's policy."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import av
import pytest

from tests.cli.command import complaint, hotloop, hotloop_json
from tests.cli.test_play import on_a_terminal

WALKS = "tests.episodes.walks:"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two runs, made once: the second has masks and a memory, and names code."""
    path = tmp_path_factory.mktemp("home")
    small = ("--steps", "1024", "runner.num_envs=8", "runner.num_workers=1", "ppo.minibatch_size=256")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLOOP_HOME", str(path))
        hotloop_json("train", "gymnasium:CartPole-v1", "--name", "poles", *small)
        with_memory = ("policy.memory=gru", "policy.memory_size=8", f"runner.worker_python={sys.executable}")
        hotloop_json("train", f"{WALKS}Walk", "--name", "walks", *small, *with_memory)
        yield path


def test_an_envs_own_text_is_shown() -> None:
    done = hotloop("play", "gymnasium:FrozenLake-v1", "--steps", "2", "--seed", "1")
    assert done.returncode == 0, done.stderr
    frames = done.stdout.strip().split("\n\n")
    assert len(frames) == 3
    assert frames[0].splitlines()[1:] == [
        "FHFH",
        "FFFH",
        "HFFG",
        "gymnasium:FrozenLake-v1, random policy · step 0 · return 0",
    ]
    assert hotloop("play", "gymnasium:FrozenLake-v1", "--steps", "2", "--seed", "1").stdout == done.stdout
    assert hotloop("play", "gymnasium:FrozenLake-v1", "--steps", "2", "--seed", "3").stdout != done.stdout


def test_an_env_that_only_renders_images_is_shown_as_observations() -> None:
    done = hotloop("play", "gymnasium:CartPole-v1", "--steps", "1")
    assert done.returncode == 0
    assert done.stdout.startswith("sees 0.0")
    assert "renders images only; showing observations instead. Use --video FILE" in done.stderr


def test_steps_wait_for_keys_and_colours_are_kept_on_a_terminal() -> None:
    shown = on_a_terminal("play", f"{WALKS}Walk", "--step", keys=b"  q")
    assert "step 2 " in shown
    assert "step 3 " not in shown
    assert "\x1b[41m@" in shown


@pytest.mark.parametrize("run", ["poles", "walks"])
@pytest.mark.parametrize("how", [[], ["--stochastic"]])
def test_a_runs_policy_plays_what_eval_counts(home: Path, run: str, how: list[str]) -> None:
    *played, end = hotloop_json("play", run, "--episodes", "3", "--seed", "5", *how)
    (counted,) = hotloop_json("eval", run, "--episodes", "3", "--seed", "5", *how)
    assert len(played) == 3
    assert end["mean"] == pytest.approx(counted["mean"], abs=1e-6)
    assert sum(event["steps"] for event in played) / 3 == pytest.approx(counted["length_mean"])


def test_an_evaluation_can_change_the_envs_options(home: Path) -> None:
    (found,) = hotloop_json("eval", "poles", "env.sutton_barto_reward=true", "--episodes", "3")
    assert (found["mean"], found["options"]) == (-1, {"sutton_barto_reward": True})
    shown = hotloop("runs", "show", "poles").stdout
    assert "by hotloop eval (env.sutton_barto_reward=True): -1 over 3 episodes" in shown


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_a_video_is_written(home: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"it.{kind}"
    episode, end = hotloop_json("play", "poles", "--steps", "4", "--video", str(path))
    assert (episode["steps"], end["video"]) == (4, str(path))
    with av.open(str(path)) as file:
        frame = next(file.decode(video=0))
        assert (frame.height, frame.width) == (400, 600)


def test_pictures_with_odd_sides_are_filmed(tmp_path: Path) -> None:
    path = tmp_path / "it.mp4"
    done = hotloop("play", f"{WALKS}Walk", "--video", str(path))
    assert "10 frames, 7 per second" in done.stderr
    with av.open(str(path)) as file:
        frame = next(file.decode(video=0))
        assert (frame.height, frame.width) == (32, 46)


def test_the_best_of_several_is_saved_and_replayed(tmp_path: Path) -> None:
    path = str(tmp_path / "best.replay")
    *played, _ = hotloop_json("play", "gymnasium:CartPole-v1", "--episodes", "3", "--save", path)
    best, _ = hotloop_json("play", "--replay", path)
    assert best["return"] == max(event["return"] for event in played)
    film = hotloop("play", "--replay", path, "--steps", "2", "--video", str(tmp_path / "it.gif"))
    assert "3 frames" in film.stderr


def test_what_cannot_be_replayed_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "it.replay"
    done = hotloop("play", f"{WALKS}Walk", "env.luck=true", "--save", str(path), "--json")
    assert done.returncode == 2
    assert "cannot be replayed, so nothing was saved" in done.stderr
    assert not path.exists()


def test_code_that_a_replay_or_a_run_from_elsewhere_names_must_be_trusted(home: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "it.replay")
    hotloop_json("play", "walks", "--save", path)
    assert "review that code, then pass --trust" in complaint("play", "--replay", path)
    episode, _ = hotloop_json("play", "--replay", path, "--trust")
    assert episode["steps"] == 9
    elsewhere = tmp_path / "walks"
    shutil.copytree(home / "runs" / "walks", elsewhere)
    assert "review that code, then pass --trust" in complaint("play", str(elsewhere))
    hotloop_json("play", str(elsewhere), "--trust")


def test_a_run_whose_envs_another_interpreter_made_says_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = complaint("play", "walks")
    assert "there is no module 'tests' here" in result
    assert f"the run made its envs with {sys.executable}, play makes them with" in result


@pytest.mark.parametrize(
    ("package", "arguments", "words"),
    [
        ("pygame", ["gymnasium:CartPole-v1", "--video", "it.gif"], 'pip install "gymnasium[classic'),
        (
            "pettingzoo",
            ["pettingzoo:classic.rps_v2"],
            "the package pettingzoo: pip install 'hotloop[pettingzoo]'\n",
        ),
    ],
)
def test_missing_packages_are_named(tmp_path: Path, package: str, arguments: list[str], words: str) -> None:
    # A module that is found first, and is as if it were not there.
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('no {package}', name={package!r})\n")
    path = f"{tmp_path}:{':'.join(entry for entry in sys.path if entry)}"
    done = hotloop("play", *arguments, PYTHONPATH=path)
    assert done.returncode == 2
    assert words in done.stderr
    assert not Path("it.gif").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gymnasium:Nope-v1"], "Gymnasium has no env 'Nope-v1'"),
        (["gymnasium:CartPole-v1", "env.gravitas=1"], "unexpected keyword argument 'gravitas'"),
        (["gymnasium:CartPole-v1", "ppo.epochs=1"], "only options of the env can be set here"),
        ([f"{WALKS}Written", "--video", "x.gif"], "renders text only: leave out --video"),
        ([f"{WALKS}Blind", "--video", "x.gif"], "renders no images (its metadata lists no render mode 'rgb_array')"),
        ([f"{WALKS}bare", "--video", "x.gif"], "bare takes no render_mode: add that parameter"),
        ([f"{WALKS}Walk", "env.fail=size", "--video", "x.gif"], "picture 2 is 45x33, those before were 45x31"),
        (
            ["walks", "env.wide=true"],
            "the policy of walks does not fit tests.episodes.walks:Walk with env.wide=true",
        ),
    ],
)
def test_mistakes_are_errors_with_a_message(home: Path, arguments: list[str], words: str) -> None:
    assert words in complaint("play", *arguments)


def test_envs_that_do_not_show_themselves_say_why() -> None:
    blind = hotloop("play", f"{WALKS}Blind", "--steps", "1")
    assert "has no render modes" in blind.stderr
    bare = hotloop("play", f"{WALKS}bare", "--steps", "1")
    assert "The factory of tests.episodes.walks:bare takes no render_mode" in bare.stderr


def test_pygame_does_not_greet_among_json(tmp_path: Path) -> None:
    done = hotloop("play", "gymnasium:Taxi-v4", "--steps", "1", "--video", str(tmp_path / "it.gif"), "--json")
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["episode", "end"]
