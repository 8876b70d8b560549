"""Episodes and faults, counted in the core."""

import math
from typing import Any

import numpy as np
import pytest

import hotloop
from tests.trajectories import ONE_SEAT, VARIANTS, Variant, choose_for, label


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("variant", ONE_SEAT, ids=label)
def test_episodes_are_what_was_played(variant: Variant, mode: str) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, 7, options=options, autoreset_mode=mode, num_groups=3, num_threads=2)
    _, info = envs.reset(seed=2)
    returns, lengths, waiting = np.zeros(7), np.zeros(7, int), np.zeros(7, bool)
    played: list[tuple[int, float, int]] = []
    for step in range(300):
        _, reward, terminated, truncated, info = envs.step(choose_for(envs, step, info))
        returns += reward
        lengths += ~waiting
        done = terminated | truncated
        played += [(row, returns[row], lengths[row]) for row in np.flatnonzero(done).tolist()]
        returns[done] = 0
        lengths[done] = 0
        waiting = done & (mode == "next_step")
    report = envs.episodes()
    assert report.count == len(played) > 5
    rows, theirs, counts = (np.array(column) for column in zip(*played, strict=True))
    assert report.return_mean == pytest.approx(theirs.mean(), abs=1e-4, rel=1e-6)
    assert report.return_std == pytest.approx(theirs.std(), abs=1e-3)
    assert report.return_min == pytest.approx(theirs.min(), abs=1e-4, rel=1e-6)
    assert report.return_max == pytest.approx(theirs.max(), abs=1e-4, rel=1e-6)
    assert report.length_mean == pytest.approx(counts.mean())
    assert report.terms.keys() == set(envs.reward_terms)
    assert sum(report.terms.values()) == pytest.approx(report.return_mean, abs=1e-4, rel=1e-6)
    recent = report.recent
    assert recent.rows.tolist() == rows.tolist()
    assert recent.lengths.tolist() == counts.tolist()
    np.testing.assert_allclose(recent.returns, theirs, atol=1e-3)
    for row in range(7):
        assert recent.numbers[recent.rows == row].tolist() == list(range((rows == row).sum()))
    assert recent.terms.keys() == report.terms.keys()
    assert recent.metrics.keys() == report.metrics.keys() == set(envs.metrics)
    if "success" in report.metrics:
        assert report.metrics["success"] == pytest.approx(recent.metrics["success"].mean())


def test_a_report_covers_the_time_since_the_last_one() -> None:
    envs = hotloop.make_vec("cartpole", 4)
    envs.reset(seed=0)
    empty = envs.episodes()
    assert empty.count == len(empty.recent.rows) == 0
    assert math.isnan(empty.return_mean)
    assert math.isnan(empty.return_std)
    assert math.isnan(empty.return_min)
    assert math.isnan(empty.metrics["success"])
    for _ in range(30):
        envs.step([0] * 4)
    assert envs.episodes().count > 0
    assert envs.episodes().count == 0


def test_success_means_what_the_task_says() -> None:
    lake = hotloop.make_vec("frozen-lake", 2, options={"slippery": False})
    lake.reset(seed=0)
    lake.set_state({"state": [14, 4]})
    lake.step([2, 2])  # one to the goal, one into a hole
    report = lake.episodes()
    assert report.metrics == {"success": 0.5}
    assert report.recent.metrics["success"].tolist() == [1.0, 0.0]
    cart = hotloop.make_vec("cartpole", 2)
    cart.reset(seed=0)
    cart.set_state({"elapsed_steps": [499, 3], "theta": [0.0, 0.3]})
    cart.step([0, 0])
    assert cart.episodes().recent.metrics["success"].tolist() == [1.0, 0.0]


def test_only_the_last_few_are_kept_but_all_are_counted() -> None:
    envs = hotloop.make_vec("cartpole", 1, options={"max_steps": 1}, autoreset_mode="same_step")
    envs.reset(seed=0)
    for _ in range(5000):
        envs.step([0])
    report = envs.episodes()
    assert report.count == 5000
    assert len(report.recent.rows) == 4096
    assert report.recent.numbers[-1] == 4999


def test_threads_and_groups_do_not_show_in_reports() -> None:
    reports = []
    for threads, groups in [(1, 1), (2, 5), (3, 9)]:
        envs = hotloop.make_vec("tag", 9, num_threads=threads, num_groups=groups)
        _, info = envs.reset(seed=1)
        for step in range(300):
            info = envs.step(choose_for(envs, step, info))[4]
        reports.append(envs.episodes())
    first = reports[0]
    for other in reports[1:]:
        assert (other.count, other.return_mean, other.return_std) == (first.count, first.return_mean, first.return_std)
        assert other.terms == first.terms
        for name in ("rows", "numbers", "lengths", "returns"):
            assert np.array_equal(getattr(other.recent, name), getattr(first.recent, name))


def broken_cartpole(mode: str, **keywords: Any) -> Any:
    envs = hotloop.make_vec("cartpole", 6, autoreset_mode=mode, **keywords)
    envs.reset(seed=0)
    envs.set_state({"theta_dot": [3e38, 3e38]}, envs=[1, 4])
    return envs


def test_a_fault_cuts_the_episode_and_the_env_is_reset() -> None:
    envs = broken_cartpole("next_step", num_groups=2, num_threads=2)
    healthy = hotloop.make_vec("cartpole", 6)
    healthy.reset(seed=0)
    obs, reward, terminated, truncated, info = envs.step([0] * 6)
    expected = healthy.step([0] * 6)
    broken = np.array([False, True, False, False, True, False])
    assert np.array_equal(info["cut"], broken)
    assert info["_cut"].all()
    assert np.array_equal(truncated, broken)
    assert not terminated.any()
    assert (reward[broken] == 0).all()
    assert (obs[broken] == 0).all()
    assert np.array_equal(obs[~broken], expected[0][~broken])

    obs, reward, terminated, truncated, info = envs.step([0] * 6)
    assert "cut" not in info
    assert not truncated.any()
    assert (abs(obs[broken]) <= 0.05).all()
    report = envs.faults()
    assert report.count == 2
    assert [(fault.env, fault.episode, fault.step) for fault in report.first] == [(1, 0, 1), (4, 0, 1)]
    assert "not finite" in report.first[0].what
    assert envs.faults().count == 0
    assert envs.episodes().count == 0


def test_a_fault_under_same_step_resets_at_once() -> None:
    envs = broken_cartpole("same_step")
    obs, _, _, truncated, info = envs.step([0] * 6)
    assert info["cut"].tolist() == truncated.tolist() == [False, True, False, False, True, False]
    assert np.isfinite(obs).all()
    assert (abs(obs[[1, 4]]) <= 0.05).all()
    assert (info["final_obs"][1] == 0).all()


def test_a_fault_under_disabled_waits_for_a_reset() -> None:
    envs = broken_cartpole("disabled")
    _, _, _, truncated, _ = envs.step([0] * 6)
    with pytest.raises(RuntimeError, match="env 1 is over"):
        envs.step([0] * 6)
    envs.reset(options={"reset_mask": truncated})
    assert "cut" not in envs.step([0] * 6)[4]


def test_a_fault_is_marked_in_its_group_and_in_rollouts() -> None:
    envs = broken_cartpole("same_step", num_groups=3, num_threads=1)
    rollout = envs.rollout(2)
    rollout.begin()
    for group in range(3):
        rollout.send([0, 0], group, 0)
    batches = [envs.recv() for _ in range(3)]
    assert ["cut" in batch.info for batch in batches] == [True, False, True]
    assert batches[0].info["cut"].tolist() == [False, True]
    assert rollout.cut[0].tolist() == [False, True, False, False, True, False]
    # A step after it has nothing new to tell.
    assert "cut" not in envs.step([0] * 6)[4]
    assert envs.faults().count == 2


def test_many_faults_are_counted_and_the_first_described() -> None:
    envs = hotloop.make_vec("cartpole", 500)
    envs.reset(seed=0)
    envs.set_state({"theta_dot": np.full(500, 3e38, np.float32)})
    envs.step([0] * 500)
    report = envs.faults()
    assert report.count == 500
    assert 0 < len(report.first) < 500


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_nothing_faults_in_ordinary_play(variant: Variant) -> None:
    name, options = variant
    envs = hotloop.make_vec(name, 20, options=options)
    _, info = envs.reset(seed=3)
    for step in range(200):
        info = envs.step(choose_for(envs, step, info))[4]
        assert "cut" not in info
    assert envs.faults().count == 0
