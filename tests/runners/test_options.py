"""Changes during the life of a runner: options, policies, reward weights; and infos on request."""

from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.runners.base import Runner
from tests.trajectories import choose_for


def steps_until_truncated(envs: Runner, most: int = 60) -> list[int]:
    """Of each env, from a fresh reset on, with actions that end nothing else."""
    lengths = [0] * envs.env_count
    for step in range(1, most):
        truncated = envs.step(np.zeros((envs.num_envs, 1), np.float32))[3]
        for env in np.flatnonzero(truncated).tolist():
            lengths[env] = lengths[env] or step
    return lengths


def test_options_given_at_the_start_hold_and_can_be_read() -> None:
    envs = hotloop.make_vec("cartpole", 2, options={"gravity": 5, "max_steps": np.int64(7)})
    assert envs.options["gravity"] == 5.0
    assert envs.options["max_steps"] == 7
    assert envs.options["length"] == 0.5


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_configure_holds_from_each_envs_next_reset_on(mode: str) -> None:
    envs = hotloop.make_vec("pendulum", 4, options={"max_steps": 10}, autoreset_mode=mode, num_groups=2)
    envs.reset(seed=0)
    envs.configure({"max_steps": 5})
    lengths = steps_until_truncated(envs, 12)
    assert lengths == [10] * 4
    more = [envs.step(np.zeros((4, 1), np.float32))[3].tolist() for _ in range(6)]
    # Under next_step one of the steps is the reset itself.
    assert more.index([True] * 4) == (4 if mode == "next_step" else 3)


def test_configure_some_envs_only() -> None:
    envs = hotloop.make_vec("pendulum", 6, num_groups=4)
    envs.reset(seed=0)
    envs.configure({"max_steps": 4}, envs=[1, 5])
    envs.configure({"max_steps": 7}, envs=np.array([2]))
    envs.configure({"gravity": 0.0}, envs=[5])
    envs.configure({"gravity": 0.0}, envs=[])
    envs.reset()
    assert steps_until_truncated(envs) == [0, 4, 7, 0, 0, 4]


def test_configured_physics_are_used() -> None:
    envs, light = hotloop.make_vec("pendulum", 3), hotloop.make_vec("pendulum", 3, options={"gravity": 1.0})
    envs.reset(seed=0)
    envs.configure({"gravity": 1.0}, envs=[1])
    envs.reset(seed=0)
    light.reset(seed=0)
    torque = np.zeros((3, 1), np.float32)
    ours, theirs = envs.step(torque)[0], light.step(torque)[0]
    assert np.array_equal(ours[1], theirs[1])
    assert not np.array_equal(ours[0], theirs[0])


def test_a_tables_options_can_change_too() -> None:
    envs = hotloop.make_vec("frozen-lake", 40)
    envs.reset(seed=0)
    envs.configure({"slippery": False}, envs=range(0, 40, 2))
    envs.reset()
    obs = envs.step(np.full(40, 2))[0]
    assert (obs[::2] == 1).all()
    assert len(set(obs[1::2].tolist())) > 1


def test_what_fixes_the_spaces_cannot_change() -> None:
    envs = hotloop.make_vec("tag", 2)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match='option "seats" of tag fixes its spaces: make a new runner to change it'):
        envs.configure({"seats": 5})
    with pytest.raises(ValueError, match="expected 2 to 4"):
        envs.configure({"players": 7})
    with pytest.raises(ValueError, match='tag has no option "wall"; did you mean "walls"'):
        envs.configure({"wall": 0.1})
    with pytest.raises(ValueError, match="envs names 2: expected 0 to 1"):
        envs.configure({"walls": 0.2}, envs=[2])
    envs.configure({"seats": 4, "players": 3})
    assert envs.reset()[1]["valid"].reshape(2, 4)[:, 3].tolist() == [False, False]


@pytest.mark.parametrize("name", ["tag", "cartpole", "taxi"])
def test_policies_are_latched_when_an_env_resets(name: str) -> None:
    envs = hotloop.make_vec(name, 5, num_groups=2, options={"max_steps": 9}, autoreset_mode="same_step")
    rollout = envs.rollout(1)
    _, info = envs.reset(seed=0)
    table = 1 + np.arange(envs.num_envs).reshape(5, envs.seats)
    envs.set_policies(table)

    def now() -> Any:
        rollout.begin()
        if envs.seats > 1:
            assert np.array_equal(rollout.policy[0], envs.set_state({})[1]["policy"])
        return rollout.policy[0].reshape(5, envs.seats).copy()

    expected = np.zeros_like(table)
    for step in range(30):
        assert np.array_equal(now(), expected)
        _, _, terminated, truncated, info = envs.step(choose_for(envs, step, info))
        reset = terminated | truncated if envs.seats == 1 else envs.get_state()["elapsed_steps"] == 0
        expected[reset] = table[reset]
    assert np.array_equal(expected, table)


def test_reward_is_the_weighted_sum_of_its_terms() -> None:
    keywords: dict[str, Any] = {"options": {"seats": 4, "size": 5}}
    plain, weighted = hotloop.make_vec("tag", 30, **keywords), hotloop.make_vec("tag", 30, **keywords)
    _, info = plain.reset(seed=0)
    weighted.reset(seed=0)
    assert plain.reward_weights == {"catch": 1.0, "caught": 1.0, "survive": 1.0}
    weighted.set_reward_weights({"catch": 10.0, "survive": 0.0})
    assert weighted.reward_weights == {"catch": 10.0, "caught": 1.0, "survive": 0.0}
    seen = set()
    for step in range(200):
        actions = choose_for(plain, step, info)
        _, reward, _, _, info = plain.step(actions)
        other = weighted.step(actions)[1]
        survived = np.isclose(reward, 0.01)
        caught = reward == -1
        caught_some = reward >= 1
        assert (other[survived] == 0).all()
        assert (other[caught] == -1).all()
        np.testing.assert_allclose(other[caught_some], 10 * reward[caught_some])
        seen |= {
            bool(survived.any()),
            *(("caught",) if caught.any() else ()),
            *(("catch",) if caught_some.any() else ()),
        }
    assert {True, "caught", "catch"} <= seen
    ours, theirs = plain.episodes(), weighted.episodes()
    # Sums of terms are reported without weights, returns with them.
    assert ours.terms == theirs.terms
    assert theirs.return_mean == pytest.approx(10 * theirs.terms["catch"] + theirs.terms["caught"], rel=1e-5)


def test_weights_hold_from_the_next_step_on_for_vectorised_envs() -> None:
    envs = hotloop.make_vec("cartpole", 3)
    envs.reset(seed=0)
    assert envs.step([0, 0, 0])[1].tolist() == [1.0, 1.0, 1.0]
    envs.set_reward_weights({"reward": -0.5})
    assert envs.step([0, 0, 0])[1].tolist() == [-0.5, -0.5, -0.5]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_infos_come_on_request(mode: str) -> None:
    envs = hotloop.make_vec("frozen-lake", 6, infos=["prob"], autoreset_mode=mode)
    silent = hotloop.make_vec("frozen-lake", 6, autoreset_mode=mode)
    _, info = envs.reset(seed=0)
    assert silent.reset(seed=0)[1] == {}
    assert info["prob"].tolist() == [1.0] * 6
    assert info["_prob"].all()
    for _ in range(50):
        _, _, terminated, truncated, info = envs.step([1] * 6)
        assert info["prob"].shape == (6,)
        assert np.isin(info["prob"], np.array([1 / 3, 1.0], np.float32)).all()
        if "final_info" in info:
            ended = terminated | truncated
            assert np.array_equal(info["_final_info"], ended)
            assert np.array_equal(info["final_info"]["_prob"], ended)
            assert (info["final_info"]["prob"][ended] < 0.4).all()
        assert "prob" not in silent.step([1] * 6)[4]


def test_masks_that_are_true_for_all_cannot_be_changed() -> None:
    _, info = hotloop.make_vec("taxi", 3).reset(seed=0)
    assert info["_action_mask"].tolist() == [True, True, True]
    with pytest.raises(ValueError, match="read-only"):
        info["_action_mask"][0] = False


def test_infos_that_do_not_exist_are_named() -> None:
    with pytest.raises(ValueError, match='frozen-lake has no info array "probs"; it has: prob'):
        hotloop.make_vec("frozen-lake", infos=["probs"])
    with pytest.raises(ValueError, match="infos names 'prob' twice"):
        hotloop.make_vec("frozen-lake", infos=["prob", "prob"])
