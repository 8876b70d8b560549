"""A Python env is played in this process as a runner plays it, and shows itself as far as it can."""

import sys
from pathlib import Path

import numpy as np
import pytest

import hotloop
from hotloop.episodes.actors import random_actor
from hotloop.episodes.episode import Episode
from hotloop.episodes.local_env import PICTURE, TEXT, LocalEnv, look
from hotloop.episodes.replay import Replay
from hotloop.errors import EnvError, RenderError, ReplayError
from hotloop.runners.processes import ProcessRunner

WALKS = "tests.episodes.walks:"


@pytest.mark.parametrize("env", ["gymnasium:CartPole-v1", "gymnasium:FrozenLake-v1", "pettingzoo:classic.tictactoe_v3"])
def test_the_key_is_that_of_a_runners_env(env: str) -> None:
    with hotloop.make_vec(env, num_envs=3, num_workers=0) as envs:
        obs, _ = envs.reset(seed=11)
        episode = Episode(env, {}, seed=11, index=2)
        rows = slice(2 * episode.seats, 3 * episode.seats)
        choose = random_actor(episode)
        for step in range(3):
            assert np.array_equal(episode.obs, obs[rows])
            chosen = choose(episode.obs, episode.mask, step)
            obs, reward, *_ = envs.step(np.concatenate([chosen] * 3))
            episode.step(chosen)
            assert np.array_equal(episode.rewards[-1], reward[rows])
        episode.close()


@pytest.mark.parametrize("env", ["gymnasium:Pendulum-v1", "pettingzoo:classic.tictactoe_v3", f"{WALKS}Walk"])
def test_an_episode_is_played_to_its_end_and_comes_out_again(env: str) -> None:
    episode = Episode(env, {}, seed=3, index=1)
    episode.finish(random_actor(episode))
    episode.close()
    assert episode.ended == ("truncated" if "Pendulum" in env else "terminated")
    Replay.of(episode).check()


def test_an_env_that_draws_on_more_than_its_seed_is_found_out() -> None:
    episode = Episode(f"{WALKS}Walk", {"luck": True}, seed=3)
    episode.finish(random_actor(episode))
    with pytest.raises(ReplayError, match=r"the reward of step 0 differs|the observation before step 1 differs"):
        Replay.of(episode).check()


def test_chance_stays_near_the_bounds_there_are() -> None:
    episode = Episode(f"{WALKS}Unbounded", {}, seed=0)
    choose = random_actor(episode)
    drawn = np.concatenate([choose(episode.obs, None, step) for step in range(300)])
    assert np.allclose(drawn.min(0), [-1, 3, -5, 2], atol=0.1)
    assert np.allclose(drawn.max(0), [1, 5, -3, 5], atol=0.1)


@pytest.mark.parametrize(
    ("env", "text", "picture"),
    [
        ("gymnasium:CartPole-v1", False, True),
        ("gymnasium:FrozenLake-v1", True, True),
        (f"{WALKS}Walk", True, True),
        (f"{WALKS}Written", True, False),
        (f"{WALKS}Blind", False, False),
        (f"{WALKS}bare", False, False),
        (f"{WALKS}drawn", False, True),
    ],
)
def test_it_is_known_how_an_env_can_show_itself(env: str, text: bool, picture: bool) -> None:
    shows = look(env, {})
    assert (shows.can(TEXT), shows.can(PICTURE)) == (text, picture)


def test_text_and_pictures_are_the_envs_own() -> None:
    written = Episode(f"{WALKS}Walk", {}, seed=0, render_mode=TEXT)
    assert written.text() == "\x1b[41m@\x1b[0m"
    drawn = Episode("gymnasium:CartPole-v1", {}, seed=0, render_mode=PICTURE)
    before = drawn.picture()
    assert before.shape == (400, 600, 3)
    for _ in range(5):
        drawn.step(np.array([1]))
    assert not np.array_equal(drawn.picture(), before)
    assert Episode(f"{WALKS}drawn", {}, seed=0).picture().shape == (31, 45, 3)


def test_an_env_without_rendering_is_shown_as_observations() -> None:
    few = Episode("gymnasium:CartPole-v1", {}, seed=0)
    assert few.text() == "sees " + " ".join(f"{number:.4g}" for number in few.obs[0].tolist())
    several = Episode("pettingzoo:classic.tictactoe_v3", {}, seed=0)
    assert several.text().splitlines() == ["sees" + " 0" * 18] * 2
    many = Episode("pettingzoo:classic.connect_four_v3", {}, seed=0)
    assert many.text().splitlines()[0] == "sees 6x7x2 numbers, 0 to 0, mean 0"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("gymnasium:Nope-v1", "gymnasium:Nope-v1 cannot be made: Gymnasium has no env 'Nope-v1'"),
        ("gymnasium:CartPole-v77", "cannot be made: Gymnasium has no env 'CartPole-v77'. Did you mean 'CartPole-v1'"),
        ("nowhere_at_all:make", "there is no module 'nowhere_at_all' here, nor in the current folder"),
        (f"{WALKS}nope", "has no 'nope'"),
    ],
)
def test_an_env_that_cannot_be_made_is_an_error(env: str, words: str) -> None:
    with pytest.raises(EnvError, match=words):
        LocalEnv(env, {})


def test_unknown_options_are_an_error() -> None:
    with pytest.raises(EnvError, match="unexpected keyword argument 'gravitas'"):
        LocalEnv("gymnasium:CartPole-v1", {"gravitas": 1})


def test_a_failing_env_is_an_error_with_the_line_of_its_code() -> None:
    episode = Episode(f"{WALKS}Walk", {"fail": "step"}, seed=0)
    with pytest.raises(EnvError, match=r"Walk failed in step 1: RuntimeError: the floor is gone \(.*walks.py:\d+\)$"):
        episode.step(np.array([1]))


def test_a_picture_that_is_none_is_refused() -> None:
    episode = Episode(f"{WALKS}Walk", {"fail": "render"}, seed=0, render_mode=PICTURE)
    with pytest.raises(RenderError, match="gave str: expected uint8 of height x width x 3"):
        episode.picture()


def test_modules_of_the_current_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "walks_from_here.py").write_text("from tests.episodes.walks import Walk\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    with hotloop.make_vec("walks_from_here:Walk", num_workers=0) as envs:
        assert isinstance(envs, ProcessRunner)
        (adapted,) = envs.local_envs()
        assert type(adapted.env).__name__ == "Walk"
