"""Rollouts: many steps written in place, time first."""

from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.runners.base import Runner
from hotloop.runners.rollout import Rollout
from tests.trajectories import VARIANTS, Variant, choose, label

HORIZON = 25
ENVS = 7


def rows_of(envs: Runner, group: int) -> range:
    return range(envs.num_envs)[envs.group_rows(group)]


def fill(envs: Runner, rollout: Rollout) -> list[np.ndarray[Any, Any]]:
    """Play a whole rollout, each group at its own pace; return the actions by time."""
    space = envs.single_action_space
    actions = [np.zeros_like(envs.action_space.sample()) for _ in range(rollout.horizon)]
    times = [0] * envs.num_groups
    rollout.begin()

    def send(group: int) -> None:
        time, rows = times[group], envs.group_rows(group)
        mask = None if rollout.action_mask is None else rollout.action_mask[time, rows]
        # Row by row, so that the choice does not depend on the grouping.
        whole = choose(space, envs.num_envs, time, None if mask is None else rollout.action_mask[time])  # type: ignore[index]
        actions[time][rows] = whole[rows]
        rollout.send(actions[time][rows], group, time)
        times[group] += 1

    for group in range(envs.num_groups):
        send(group)
    left = envs.num_groups * rollout.horizon
    while left:
        batch = envs.recv()
        left -= len(batch.groups)
        now = np.repeat([times[group] for group in batch.groups], [len(rows_of(envs, group)) for group in batch.groups])
        assert np.array_equal(batch.obs, rollout.obs[now, batch.rows])
        assert np.array_equal(batch.reward, rollout.reward[now - 1, batch.rows])
        if len(batch.groups) == 1:
            assert np.shares_memory(batch.obs, rollout.obs)
        for group in batch.groups:
            if times[group] < rollout.horizon:
                send(group)
    return actions


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_holds_what_steps_would_give(variant: Variant, mode: str) -> None:
    name, options = variant
    infos = next(env.infos for env in hotloop.list_envs() if env.name == name)
    keywords: dict[str, Any] = {"options": options, "autoreset_mode": mode, "infos": infos}
    envs = hotloop.make_vec(name, ENVS, num_groups=3, num_threads=2, groups_per_batch=2, **keywords)
    plain = hotloop.make_vec(name, ENVS, **keywords)
    envs.reset(seed=1)
    obs, info = plain.reset(seed=1)
    rollout = envs.rollout(HORIZON)
    for _ in range(4):
        finals: list[tuple[int, int, Any]] = []
        for time, actions in enumerate(fill(envs, rollout)):
            assert np.array_equal(rollout.obs[time], obs)
            if rollout.action_mask is not None:
                assert np.array_equal(rollout.action_mask[time], info["action_mask"])
            for key in infos:
                assert np.array_equal(rollout.infos[key][time], info[key])
            if envs.seats > 1:
                assert np.array_equal(rollout.valid[time], info["valid"])
                assert np.array_equal(rollout.policy[time], info["policy"])
            elif mode == "same_step":
                assert rollout.valid[time].all()
            obs, reward, terminated, truncated, info = plain.step(actions)
            assert np.array_equal(rollout.reward[time], reward)
            assert np.array_equal(rollout.terminated[time], terminated)
            assert np.array_equal(rollout.truncated[time], truncated)
            assert not rollout.cut[time].any()
            if "final_obs" in info:
                rows = np.flatnonzero(info["_final_obs"] & truncated)
                finals += [(time, row, info["final_obs"][row]) for row in rows.tolist()]
        assert np.array_equal(rollout.obs[HORIZON], obs)
        final = rollout.final
        assert final.time.tolist() == [entry[0] for entry in finals]
        assert final.row.tolist() == [entry[1] for entry in finals]
        assert all(np.array_equal(a, entry[2]) for a, entry in zip(final.obs, finals, strict=True))


def test_neighbours_at_different_times_are_gathered() -> None:
    envs = hotloop.make_vec("cartpole", 4, num_groups=2, groups_per_batch=2, num_threads=1)
    envs.reset(seed=0)
    rollout = envs.rollout(3)
    rollout.begin()
    rollout.send([0, 1], 0, 0)
    assert envs.recv().groups == (0,)
    rollout.send([0, 1], 0, 1)
    rollout.send([0, 1], 1, 0)
    batch = envs.recv()
    assert batch.groups == (0, 1)
    assert np.array_equal(batch.obs, np.concatenate([rollout.obs[2, :2], rollout.obs[1, 2:]]))


def test_rows_that_wait_for_a_reset_do_not_decide() -> None:
    envs = hotloop.make_vec("cartpole", 2, options={"max_steps": 3})
    envs.reset(seed=0)
    rollout = envs.rollout(5)
    rollout.begin()
    for time in range(5):
        rollout.send([0, 1], 0, time)
        envs.recv()
    assert rollout.valid[:, 0].tolist() == [True, True, True, False, True, True]


def test_shapes_are_time_first() -> None:
    envs = hotloop.make_vec("tag", 3, options={"seats": 2})
    rollout = envs.rollout(4)
    assert rollout.obs.shape == (5, 6, 11)
    assert rollout.valid.shape == rollout.policy.shape == (5, 6)
    assert rollout.action_mask is not None
    assert rollout.action_mask.shape == (5, 6, 5)
    assert rollout.reward.shape == rollout.terminated.shape == rollout.truncated.shape == rollout.cut.shape == (4, 6)
    assert hotloop.make_vec("cartpole").rollout(2).action_mask is None


def test_final_observations_are_there_until_the_envs_move_on() -> None:
    envs = hotloop.make_vec("cartpole", 2, options={"max_steps": 2}, autoreset_mode="same_step")
    envs.reset(seed=0)
    rollout, other = envs.rollout(3), envs.rollout(3)
    rollout.begin()
    for time in range(3):
        rollout.send([0, 0], 0, time)
        envs.recv()
    assert rollout.final.time.tolist() == [1, 1]
    assert rollout.final.row.tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="group 0 was not sent to this rollout"):
        other.final  # noqa: B018
    envs.step([0, 0])
    with pytest.raises(RuntimeError, match="has moved on since: its final observations are not here"):
        rollout.final  # noqa: B018


@pytest.mark.parametrize("slot", [-1, 3, 100])
def test_slots_outside_are_refused(slot: int) -> None:
    envs = hotloop.make_vec("cartpole", 2)
    envs.reset(seed=0)
    rollout = envs.rollout(3)
    with pytest.raises(ValueError, match=f"slot is {slot}: "):
        rollout.send([0, 0], 0, slot)
    rollout.send([0, 0], 0, 2)
    envs.recv()


@pytest.mark.parametrize("horizon", [0, -1])
def test_a_horizon_is_at_least_one(horizon: int) -> None:
    with pytest.raises(ValueError, match=f"horizon is {horizon}: expected 1 or more"):
        hotloop.make_vec("cartpole").rollout(horizon)


def test_a_rollout_outlives_its_runner() -> None:
    envs = hotloop.make_vec("cartpole", 2)
    envs.reset(seed=0)
    rollout = envs.rollout(1)
    rollout.begin()
    rollout.send([0, 0], 0, 0)
    envs.close()
    del envs
    assert np.isfinite(rollout.obs).all()
