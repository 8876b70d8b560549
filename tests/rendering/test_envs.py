"""Every native env can be watched: as text, and as a picture of one size."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

import hotloop
from hotloop.envs.scene import Scene
from hotloop.errors import RenderError
from hotloop.integrations.gymnasium import NativeEnv
from hotloop.rendering import action_text, as_picture, as_text, has_picture
from tests.trajectories import VARIANTS, Variant, choose_for, label

DRAWN = [variant for variant in VARIANTS if has_picture(variant[0])]


def scene(env: str, options: dict[str, Any] | None = None, actions: Any = None, **state: Any) -> Scene:
    """An env in some state, with default options but for those named."""
    entry = next(entry for entry in hotloop.list_envs() if entry.name == env)
    defaults = {option.name: option.default for option in entry.options}
    fields = {name: np.asarray(value) for name, value in state.items()}
    return Scene(env, {**defaults, **(options or {})}, fields, None if actions is None else np.asarray(actions))


@pytest.mark.parametrize("variant", DRAWN, ids=label)
def test_pictures_of_an_episode_differ_and_have_one_size(variant: Variant) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, num_envs=2, options=options, render_mode="rgb_array")
    _, info = envs.reset(seed=1)
    frames: list[NDArray[np.uint8]] = []
    for step in range(6):
        pictures = envs.render()
        assert pictures is not None
        frames += pictures
        info = envs.step(choose_for(envs, step, info))[4]
    assert {(frame.shape, frame.dtype) for frame in frames} == {(frames[0].shape, np.dtype(np.uint8))}
    height, width, colours = frames[0].shape
    assert max(height, width) == 480
    assert height % 2 == width % 2 == 0
    assert colours == 3
    assert len({frame.tobytes() for frame in frames}) > 1


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_text_fits_a_terminal_and_follows_the_episode(variant: Variant) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, num_envs=2, options=options, render_mode="ansi")
    _, info = envs.reset(seed=1)
    texts = set()
    for step in range(6):
        shown = envs.render()
        assert shown is not None
        texts |= set(shown)
        info = envs.step(choose_for(envs, step, info))[4]
    assert len(texts) > 1
    lines = [line for text in texts for line in text.splitlines()]
    assert max(map(len, lines)) <= 80
    assert max(len(text.splitlines()) for text in texts) <= 22


def test_the_poles_tip_is_where_its_angle_says() -> None:
    tilted = as_picture(scene("cartpole", x=0.0, theta=1.5))
    orange = np.abs(tilted.astype(int) - (224, 122, 47)).sum(-1) < 30
    rows, columns = np.nonzero(orange)
    # The middle of the picture is x = 0; a pole of length 1 that lies to the right ends at 3/5 of the way to the edge.
    assert columns.min() >= 235
    assert columns.max() == pytest.approx(240 + 80 * np.sin(1.5), abs=8)
    assert rows.max() - rows.min() < 25


def test_frozen_lake_shows_where_one_stands_on_any_map() -> None:
    assert as_text(scene("frozen-lake", {"map": "SF/HG"}, state=1)) == " S [·]\n o  G"
    assert as_text(scene("frozen-lake", state=15)).splitlines()[3] == " o  ·  · [G]"


def test_cliff_walking_shows_the_cliff() -> None:
    assert as_text(scene("cliff-walking", state=36)).splitlines()[3] == "[S] x  x  x  x  x  x  x  x  x  x  G"


def test_taxi_shows_the_passenger_and_the_destination() -> None:
    # The taxi in row 2, column 4, the passenger at its second stand, on the way to the fourth.
    shown = as_text(scene("taxi", state=((2 * 5 + 4) * 5 + 1) * 4 + 3)).splitlines()
    assert shown[3] == "| ·   ·   ·   ·  [·]|"
    assert shown[-1] == "passenger at G, to B"
    assert as_text(scene("taxi", state=4 * 4)).endswith("passenger in the taxi, to R")


def test_tictactoe_shows_the_board_and_who_plays_what() -> None:
    shown = as_text(scene("tictactoe", board=[1, 0, 0, 0, 2, 0, 0, 0, 1], mark=2)).splitlines()
    assert shown[0] == " X │ · │ ·"
    assert shown[2] == " · │ O │ ·"
    assert shown[-1] == "the policy plays O"


def test_three_in_a_row_are_struck_through() -> None:
    board = [1, 1, 0, 2, 2, 0, 0, 0, 0]
    won = [1, 1, 1, 2, 2, 0, 0, 0, 0]
    before, after = (as_picture(scene("tictactoe", board=marks, mark=1)) for marks in (board, won))
    first_square = np.s_[20:160, 20:160]
    assert not np.array_equal(before[first_square], after[first_square])


def test_recall_hides_the_cue_until_the_answer() -> None:
    options = {"delay": 2, "cues": 3, "symbols": 2}
    assert "shown  C A" in as_text(scene("recall", options, cue=[2, 0], time=0))
    assert "shown  -" in as_text(scene("recall", options, cue=[2, 0], time=1))
    assert "shown  answer!" in as_text(scene("recall", options, cue=[2, 0], time=3))
    assert "answer B A" in as_text(scene("recall", options, [[1, 0]], cue=[2, 0], time=4))


def test_catch_shows_ball_and_paddle_and_where_the_ball_cannot_be_seen() -> None:
    options = {"height": 3, "width": 3, "visible": 1}
    assert as_text(scene("catch", options, ball=[0, 2], paddle=1)).splitlines() == [" ·  ·  o", " ·  ·  ·", " · === ·"]
    assert as_text(scene("catch", options, ball=[1, 2], paddle=1)).splitlines()[1] == " ·  · ( )"
    assert as_text(scene("catch", options, ball=[2, 2], paddle=2)).splitlines()[2] == " ·  · =o="
    hidden, seen = (as_picture(scene("catch", {**options, "visible": v}, ball=[1, 2], paddle=1)) for v in (1, 0))
    assert not np.array_equal(hidden, seen)


def test_tag_shows_teams_walls_and_who_was_caught() -> None:
    walls = np.zeros(25, np.uint8)
    walls[24] = 1
    options = {"size": 5, "seats": 3, "taggers": 1}
    shown = as_text(scene("tag", options, cell=[0, 1, 7], in_play=[1, 1, 0], walls=walls)).splitlines()
    assert shown == ["T0 R1  ·  ·  ·", " ·  · x2  ·  ·", " ·  ·  ·  ·  ·", " ·  ·  ·  ·  ·", " ·  ·  ·  ·  #"]


def test_actions_have_names() -> None:
    assert action_text("cartpole", np.array(1)) == "push right"
    assert action_text("pendulum", np.array([0.5], np.float32)) == "+0.50"
    assert action_text("recall", np.array([2, 0])) == "2 0"


def test_an_env_without_a_file_of_its_own_is_shown_by_its_fields() -> None:
    bare = Scene("not-there", {}, {"x": np.array(1.5), "cells": np.array([1, 2])})
    assert as_text(bare) == "x  1.5\ncells  1 2"
    with pytest.raises(RenderError, match="not-there renders text only"):
        as_picture(bare)


def test_gymnasium_renders_a_native_env() -> None:
    env = gymnasium.make("hotloop/CartPole-v1", render_mode="rgb_array")
    collected = gymnasium.wrappers.RenderCollection(env)
    collected.reset(seed=0)
    for action in (0, 1, 1):
        collected.step(action)
    frames: Any = collected.render()
    assert [frame.shape for frame in frames] == [(216, 480, 3)] * 4
    assert env.metadata["render_fps"] == 50.0


def test_a_push_is_drawn_and_a_reset_takes_it_away() -> None:
    env = NativeEnv("cartpole", render_mode="rgb_array")
    env.reset(seed=0)
    start = env.render()
    env.step(1)
    pushed = env.render()
    env.reset(seed=0)
    assert np.array_equal(env.render(), start)
    assert not np.array_equal(pushed, start)


def test_render_modes_that_there_are_not_are_refused() -> None:
    with pytest.raises(RenderError, match="render_mode is 'human': expected one of 'ansi', 'rgb_array'"):
        NativeEnv("cartpole", render_mode="human")
    with pytest.raises(RenderError, match="render_mode is 'rgb'"):
        hotloop.make_vec("cartpole", render_mode="rgb")


def test_rendering_before_the_first_reset_says_so() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded, match="before the first reset"):
        NativeEnv("cartpole", render_mode="ansi").render()


def test_without_a_render_mode_nothing_is_shown() -> None:
    env = NativeEnv("cartpole")
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None
    assert hotloop.make_vec("cartpole").render() is None


def test_cage2_shows_what_is_true_beside_what_blue_believes() -> None:
    envs = hotloop.make_vec("cage2", num_envs=1, options={"red": "sleep"}, render_mode="ansi")
    envs.reset(seed=0)
    clean = envs.render()
    assert clean is not None
    assert "User0        privileged  clean" in clean[0]
    privileged = np.isin(np.arange(13), [7, 8]).astype(np.uint8)
    envs.set_state({"privileged": privileged[None], "ot_up": np.zeros((1, 1), np.uint8)})
    envs.step([2 + 26 + 9])
    result = envs.render()
    assert result is not None
    assert result[0].splitlines()[0] == "step 1 of 100, red agent sleep, the OT service is down"
    assert "Op_Server0   privileged  clean" in result[0]
    assert "User1        clean       clean       o" in result[0]
    assert result[0].endswith("red: Sleep")
    state = {name: values[0] for name, values in envs.get_state().items()}
    for actions, action, words in [("full", 37, "DecoyApache User1"), ("compact", 37, "Restore User2")]:
        shown = as_text(scene("cage2", {"actions": actions}, [action], **state))
        assert f"\nblue: {words}\n" in shown
