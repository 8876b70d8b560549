"""Groups move on their own: every row exactly once per step, in whatever order they come back."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotloop
from hotloop.runners.batch import Batch
from tests.trajectories import VARIANTS, Variant, choose, choose_for, label


@settings(max_examples=30)
@given(
    envs=st.integers(1, 30),
    groups=st.integers(1, 8),
    per_batch=st.integers(1, 8),
    threads=st.integers(1, 4),
    variant=st.sampled_from(VARIANTS),
)
def test_every_row_comes_back_exactly_once_per_step(
    envs: int, groups: int, per_batch: int, threads: int, variant: Variant
) -> None:
    groups = min(groups, envs)
    name, options = variant
    runner = hotloop.make_vec(
        name,
        envs,
        options=options,
        num_groups=groups,
        num_threads=threads,
        groups_per_batch=min(per_batch, groups),
    )
    plain = hotloop.make_vec(name, envs, options=options)
    _, info = runner.reset(seed=5)
    _, result = plain.reset(seed=5)
    masks = info.get("action_mask")
    masks = None if masks is None else masks.copy()
    space, rows = runner.single_action_space, runner.num_envs
    for step in range(12):
        actions = choose(space, rows, step, masks)
        expected = plain.step(choose_for(plain, step, result))
        result = expected[4]
        for group in range(groups):
            runner.send(actions[runner.group_rows(group)], group)
        seen = np.zeros(rows, int)
        left = groups
        while left:
            batch = runner.recv()
            assert len(batch.groups) == min(runner.groups_per_batch, left)
            left -= len(batch.groups)
            np.add.at(seen, batch.rows, 1)
            assert batch.rows.tolist() == [
                row for group in batch.groups for row in range(rows)[runner.group_rows(group)]
            ]
            for ours, theirs in zip(batch[:4], expected[:4], strict=True):
                assert np.array_equal(ours, theirs[batch.rows])
            for key, values in batch.info.items():
                assert np.array_equal(values, result[key][batch.rows]), key
            if masks is not None:
                masks[batch.rows] = batch.info["action_mask"]
        assert (seen == 1).all()


def test_groups_run_ahead_of_each_other() -> None:
    envs = hotloop.make_vec("cartpole", 8, num_groups=4, num_threads=2)
    plain = hotloop.make_vec("cartpole", 8)
    envs.reset(seed=2)
    plain.reset(seed=2)
    # Group 0 takes five steps before the others take one.
    for _ in range(5):
        envs.send([0, 1], 0)
        last = envs.recv()
        assert last.groups == (0,)
    five = [plain.step([0, 1] * 4) for _ in range(5)][-1]
    assert np.array_equal(last.obs, five[0][:2])
    assert envs.get_state()["elapsed_steps"].tolist() == [5, 5, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("env", ["cartpole", "gymnasium:CartPole-v1"])
def test_a_batch_has_as_many_groups_as_requested(env: str) -> None:
    shared = {"num_groups": 6} if env == "cartpole" else {"num_workers": 2, "groups_per_worker": 3}
    with hotloop.make_vec(env, 6, groups_per_batch=2, **shared) as envs:  # type: ignore[arg-type]
        envs.reset(seed=0)
        for group in range(6):
            envs.send([0], group)
        assert [len(batch.groups) for batch in (envs.recv(3), envs.recv(), envs.recv(6))] == [3, 2, 1]
        envs.send([0], 0)
        with pytest.raises(ValueError, match="count is 0: expected 1 to 6"):
            envs.recv(0)
        with pytest.raises(ValueError, match="count is 7: expected 1 to 6"):
            envs.recv(7)
        envs.recv()


def test_one_group_and_neighbours_are_views_others_copies() -> None:
    envs = hotloop.make_vec("cartpole", 6, num_groups=3, num_threads=1, groups_per_batch=2)

    def sent(*groups: int) -> Batch:
        envs.reset(seed=0)
        for group in groups:
            envs.send([0, 0], group)
        return envs.recv()

    # One thread makes groups come back in the order they were sent.
    neighbours, single, apart = sent(0, 1), sent(2), sent(2, 0)
    assert neighbours.rows.tolist() == [0, 1, 2, 3]
    assert single.rows.tolist() == [4, 5]
    assert apart.rows.tolist() == [4, 5, 0, 1]
    assert not neighbours.obs.flags.owndata
    before = single.obs.copy()
    copied = apart.obs.copy()
    envs.send([1, 1], 2)
    envs.recv()
    assert not np.array_equal(single.obs, before)
    assert np.array_equal(apart.obs, copied)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_final_observations_come_with_their_batch(variant: Variant) -> None:
    name, options = variant
    keywords = {"options": options, "autoreset_mode": "same_step"}
    envs = hotloop.make_vec(name, 9, num_groups=4, num_threads=2, groups_per_batch=2, **keywords)  # type: ignore[arg-type]
    plain = hotloop.make_vec(name, 9, **keywords)  # type: ignore[arg-type]
    _, info = envs.reset(seed=3)
    plain.reset(seed=3)
    kept = 0
    for step in range(110):
        actions = choose_for(plain, step, info)
        _, _, _, _, info = plain.step(actions)
        for group in range(4):
            envs.send(actions[envs.group_rows(group)], group)
        for _ in range(2):
            batch = envs.recv()
            ended = batch.info.get("_final_obs", np.zeros(len(batch.rows), bool))
            expected = info.get("_final_obs", np.zeros(envs.num_envs, bool))[batch.rows]
            assert np.array_equal(ended, expected)
            for place in np.flatnonzero(ended):
                assert np.array_equal(batch.info["final_obs"][place], info["final_obs"][batch.rows[place]])
                kept += 1
    assert kept > 0


def test_closing_with_groups_in_flight() -> None:
    envs = hotloop.make_vec("acrobot", 20_000, num_groups=8, num_threads=2)
    envs.reset(seed=0)
    for group in range(8):
        envs.send(np.zeros(2500, np.int64), group)
    envs.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.recv()
