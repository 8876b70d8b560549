"""Seeds, masks and options of `reset`."""

from typing import Any

import numpy as np
import pytest

import hotloop
from tests.trajectories import play


def first(envs: Any, **keywords: Any) -> Any:
    return envs.reset(**keywords)[0]


def test_a_seed_repeats_everything() -> None:
    sums = {play(hotloop.make_vec("tag", 9), 200, seed=seed) for seed in (1, 1, 2)}
    assert len(sums) == 2


def test_every_env_has_a_stream_of_its_own() -> None:
    obs = first(hotloop.make_vec("cartpole", 500), seed=0)
    assert len(np.unique(obs, axis=0)) == 500


def test_no_seed_goes_on_with_the_streams() -> None:
    envs = hotloop.make_vec("cartpole", 4)
    chain = [first(envs, seed=3), first(envs), first(envs)]
    again = [first(envs, seed=3), first(envs), first(envs)]
    assert np.array_equal(chain, again)
    assert len(np.unique(np.concatenate(chain), axis=0)) == 12


def test_without_any_seed_the_system_gives_one_that_can_be_read() -> None:
    envs, other = hotloop.make_vec("cartpole", 4), hotloop.make_vec("cartpole", 4)
    seeds = [envs.np_random_seed]
    obs = first(envs)
    seeds.append(envs.np_random_seed)
    assert seeds[0] is None
    assert isinstance(seeds[1], int)
    assert not np.array_equal(obs, first(other))
    assert np.array_equal(obs, first(other, seed=seeds[1]))


def test_a_list_gives_each_env_its_own_seed() -> None:
    envs = hotloop.make_vec("cartpole", 3)
    obs = first(envs, seed=[5, 6, 5])
    assert np.array_equal(obs[0], obs[2])
    assert not np.array_equal(obs[0], obs[1])
    assert envs.np_random_seed == -1
    assert np.array_equal(obs[1], first(hotloop.make_vec("cartpole"), seed=6)[0])
    assert np.array_equal(obs, first(envs, seed=np.array([5, 6, 5])))


def test_none_in_a_list_lets_that_env_go_on() -> None:
    envs, plain = hotloop.make_vec("cartpole", 3), hotloop.make_vec("cartpole", 3)
    first(envs, seed=0)
    first(plain, seed=0)
    mixed, going_on = first(envs, seed=[None, 7, None]), first(plain)
    assert np.array_equal(mixed[[0, 2]], going_on[[0, 2]])
    assert not np.array_equal(mixed[1], going_on[1])


@pytest.mark.parametrize("seed", [0, 2**64 - 1, np.int64(3), np.uint64(2**63)])
def test_seeds_from_zero_to_the_largest(seed: Any) -> None:
    envs = hotloop.make_vec("cartpole", 2)
    assert np.array_equal(first(envs, seed=seed), first(envs, seed=int(seed)))


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (-1, ValueError, r"seed is -1: expected 0 to 2\*\*64 - 1"),
        (2**64, ValueError, r"seed is 18446744073709551616: expected 0 to"),
        (1.5, TypeError, "seed is 1.5: expected a whole number"),
        ("1", TypeError, "seed is '1': expected a whole number"),
        ([1, 2], ValueError, "2 seeds for 3 envs"),
        ([1, 2, -3], ValueError, "the seed of env 2 is -3"),
        ([1, 2.5, 3], TypeError, "the seed of env 1 is 2.5"),
    ],
)
def test_bad_seeds_are_named_and_change_nothing(seed: Any, error: Any, message: str) -> None:
    envs = hotloop.make_vec("cartpole", 3)
    first(envs, seed=0)
    with pytest.raises(error, match=message):
        envs.reset(seed=seed, options={"max_steps": 1})
    following = first(envs)
    first(envs, seed=0)
    assert np.array_equal(following, first(envs))
    assert not envs.step([0, 0, 0])[3].any()


def test_a_mask_resets_some_and_leaves_the_rest() -> None:
    envs, other = hotloop.make_vec("cartpole", 4), hotloop.make_vec("cartpole", 4)
    for runner in (envs, other):
        runner.reset(seed=0)
        runner.step([0, 1, 0, 1])
    mask = np.array([True, False, False, True])
    obs, _ = envs.reset(options={"reset_mask": mask})
    assert envs.get_state()["elapsed_steps"].tolist() == [0, 1, 1, 0]
    after, expected = envs.step([0, 1, 0, 1]), other.step([0, 1, 0, 1])
    assert np.array_equal(after[0][~mask], expected[0][~mask])
    assert abs(obs[mask]).max() <= 0.05


def test_a_seed_with_a_mask_seeds_only_those() -> None:
    envs, other = hotloop.make_vec("frozen-lake", 4), hotloop.make_vec("frozen-lake", 4)
    envs.reset(seed=0)
    other.reset(seed=0)
    mask = np.array([True, False, False, True])
    envs.reset(seed=77, options={"reset_mask": mask})
    for _ in range(40):
        ours, theirs = envs.step([2] * 4), other.step([2] * 4)
        assert np.array_equal(ours[0][~mask], theirs[0][~mask])
    whole = first(hotloop.make_vec("cartpole", 4), seed=77)
    some = hotloop.make_vec("cartpole", 4)
    some.reset(seed=0)
    assert np.array_equal(first(some, seed=77, options={"reset_mask": mask})[mask], whole[mask])
    some.reset(seed=0)
    assert np.array_equal(
        first(some, seed=[1, 2, 3, 4], options={"reset_mask": mask})[3], first(hotloop.make_vec("cartpole"), seed=4)[0]
    )


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([True, False], TypeError, "must be a numpy array"),
        (np.array([True]), ValueError, r"must have shape \(2,\), got \(1,\)"),
        (np.array([1, 0]), TypeError, "must have dtype=np.bool_, got int64"),
        (np.array([False, False]), ValueError, "must name at least one env"),
    ],
)
def test_bad_masks_are_refused_as_gymnasium_does(mask: Any, error: Any, message: str) -> None:
    envs = hotloop.make_vec("cartpole", 2)
    envs.reset(seed=0)
    with pytest.raises(error, match=message):
        envs.reset(options={"reset_mask": mask})
    envs.step([0, 0])


def test_a_mask_needs_a_whole_reset_before() -> None:
    envs = hotloop.make_vec("cartpole", 2)
    with pytest.raises(RuntimeError, match="a reset of some envs needs a reset first"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset()


def test_masks_count_envs_not_rows() -> None:
    envs = hotloop.make_vec("tag", 3)
    envs.reset(seed=0)
    envs.step([0] * 12)
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert envs.get_state()["elapsed_steps"].tolist() == [1, 0, 1]


def test_options_hold_from_the_reset_on_and_are_not_eaten() -> None:
    envs = hotloop.make_vec("cartpole", 3)
    envs.reset(seed=0)
    mask = np.array([False, True, False])
    given = {"reset_mask": mask, "max_steps": 1}
    envs.reset(options=given)
    assert given.keys() == {"reset_mask", "max_steps"}
    assert envs.step([0, 0, 0])[3].tolist() == [False, True, False]
    envs.reset()
    assert envs.step([0, 0, 0])[3].tolist() == [False, True, False]
    envs.reset(options={"max_steps": 1})
    assert envs.step([0, 0, 0])[3].all()


def test_an_attempt_gives_other_streams_for_the_same_seed() -> None:
    envs = hotloop.make_vec("cartpole", 2)
    plain = first(envs, seed=1)
    envs._seed(1, attempt=1)
    bumped = first(envs)
    envs._seed(1, attempt=0)
    assert np.array_equal(first(envs), plain)
    assert not np.array_equal(bumped, plain)
