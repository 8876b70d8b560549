"""Several seats per env, as tag and tictactoe's self-play show them."""

import numpy as np
import pytest

import hotloop
from tests.trajectories import choose_for


def test_rows_are_seats_env_by_env() -> None:
    envs = hotloop.make_vec("tag", 3, options={"seats": 6})
    assert (envs.env_count, envs.seats, envs.num_envs) == (3, 6, 18)
    obs, info = envs.reset(seed=0)
    assert len(obs) == len(info["valid"]) == len(info["policy"]) == len(info["action_mask"]) == 18
    assert info["valid"].all()
    assert info["policy"].dtype == np.int32
    assert info["_valid"].all()
    # Taggers first: the third number tells the team.
    assert obs[:, 2].reshape(3, 6).tolist() == [[1.0] * 3 + [-1.0] * 3] * 3


def test_caught_runners_drop_out_and_the_others_play_on() -> None:
    envs = hotloop.make_vec("tag", 1, options={"seats": 4, "taggers": 1, "size": 5, "walls": 0.0})
    envs.reset(seed=0)
    # A tagger at the left of a runner; two more runners far away.
    envs.set_state({"cell": [[0, 1, 20, 24]], "walls": [[0] * 25]})
    east, stay = 4, 0
    _, reward, terminated, truncated, info = envs.step([east, stay, stay, stay])
    assert terminated.tolist() == [False, True, False, False]
    assert reward.tolist() == pytest.approx([1.0, -1.0, 0.01, 0.01])
    assert info["valid"].tolist() == [True, False, True, True]
    assert not truncated.any()
    # Whatever stands in the caught row's place is ignored, and it ends only once.
    obs, reward, terminated, truncated, info = envs.step([stay, 10**6, stay, stay])
    assert not terminated.any()
    assert reward[1] == 0
    assert (obs[1] == 0).all()
    assert info["action_mask"][1].all()


def test_the_episode_ends_when_all_are_caught() -> None:
    envs = hotloop.make_vec("tag", 1, options={"seats": 2, "size": 5, "walls": 0.0})
    envs.reset(seed=0)
    envs.set_state({"cell": [[0, 1]], "walls": [[0] * 25]})
    _, reward, terminated, _, info = envs.step([4, 0])
    assert terminated.tolist() == [True, True]
    assert reward.tolist() == [1.0, -1.0]
    assert not info["valid"].any()
    report = envs.episodes()
    assert report.count == 2
    assert report.recent.metrics["success"].tolist() == [1.0, 0.0]
    _, reward, terminated, _, info = envs.step([0, 0])
    assert info["valid"].all()
    assert not terminated.any()


def test_the_time_limit_truncates_those_in_play() -> None:
    envs = hotloop.make_vec("tag", 1, options={"seats": 3, "taggers": 1, "size": 5, "walls": 0.0, "max_steps": 2})
    envs.reset(seed=0)
    envs.set_state({"cell": [[0, 1, 24]], "walls": [[0] * 25]})
    _, _, terminated, truncated, _ = envs.step([4, 0, 0])
    assert (terminated.tolist(), truncated.tolist()) == ([False, True, False], [False] * 3)
    _, _, terminated, truncated, _ = envs.step([0, 0, 0])
    assert (terminated.tolist(), truncated.tolist()) == ([False] * 3, [True, False, True])
    lengths = envs.episodes().recent
    assert dict(zip(lengths.rows.tolist(), lengths.lengths.tolist(), strict=True)) == {0: 2, 1: 1, 2: 2}


def test_padding_rows_never_play() -> None:
    envs = hotloop.make_vec("tag", 4, options={"seats": 6, "players": 3, "max_steps": 10})
    _, info = envs.reset(seed=0)
    padding = np.tile([False] * 3 + [True] * 3, 4)
    for step in range(60):
        obs, reward, terminated, truncated, info = envs.step(choose_for(envs, step, info))
        assert not (info["valid"] | terminated | truncated | (reward != 0))[padding].any()
        assert (obs[padding] == 0).all()
        assert info["action_mask"].any(axis=1).all()
    report = envs.episodes()
    assert report.count > 0
    assert not padding[report.recent.rows].any()


def test_the_number_of_players_can_grow_at_a_reset() -> None:
    envs = hotloop.make_vec("tag", 2, options={"seats": 5, "players": 2})
    _, info = envs.reset(seed=0)
    assert info["valid"].reshape(2, 5).sum(axis=1).tolist() == [2, 2]
    envs.configure({"players": 5}, envs=[1])
    _, info = envs.reset()
    assert info["valid"].reshape(2, 5).sum(axis=1).tolist() == [2, 5]


def test_a_revived_runner_plays_and_ends_again() -> None:
    envs = hotloop.make_vec("tag", 1, options={"seats": 3, "taggers": 1, "size": 5, "walls": 0.0, "max_steps": 3})
    envs.reset(seed=0)
    envs.set_state({"cell": [[0, 1, 24]], "walls": [[0] * 25]})
    assert envs.step([4, 0, 0])[2].tolist() == [False, True, False]
    envs.set_state({"cell": [[0, 12, 24]], "in_play": [[1, 1, 1]]})
    assert envs.step([0, 0, 0])[4]["valid"].all()
    assert envs.step([0, 0, 0])[3].tolist() == [True, True, True]


def test_turns_alternate_in_self_play_and_one_wins_what_the_other_loses() -> None:
    envs = hotloop.make_vec("tictactoe", 50, options={"opponent": "self"})
    _, info = envs.reset(seed=0)
    results = set()
    for step in range(100):
        valid = info["valid"].reshape(50, 2)
        assert (valid.sum(axis=1) <= 1).all()
        _, reward, terminated, _, info = envs.step(choose_for(envs, step, info))
        pairs = reward.reshape(50, 2)
        assert (pairs.sum(axis=1) == 0).all()
        ended = terminated.reshape(50, 2)
        assert np.array_equal(ended[:, 0], ended[:, 1])
        results |= set(pairs[ended[:, 0], 0].tolist())
    assert results == {-1.0, 0.0, 1.0}
