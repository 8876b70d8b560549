"""Gymnasium's own vector wrappers work on a runner unchanged, in its default mode."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import vector as wrappers

import hotloop
from hotloop.runners.base import Runner

Wrap = Callable[[VectorEnv[Any, Any, Any]], VectorEnv[Any, Any, Any]]
UNIT = gymnasium.spaces.Box(-1, 1, (4,), np.float32)

WRAPPERS: list[tuple[str, str, Wrap]] = [
    ("RecordEpisodeStatistics", "cartpole", wrappers.RecordEpisodeStatistics),
    ("NormalizeObservation", "cartpole", wrappers.NormalizeObservation),
    ("NormalizeReward", "cartpole", wrappers.NormalizeReward),
    ("DictInfoToList", "taxi", wrappers.DictInfoToList),
    ("ClipReward", "taxi", lambda envs: wrappers.ClipReward(envs, -1, 1)),
    ("TransformReward", "cartpole", lambda envs: wrappers.TransformReward(envs, lambda reward: 2 * reward)),
    ("VectorizeTransformReward", "cartpole", lambda envs: _each_reward(envs)),
    ("FlattenObservation", "tag-grid", wrappers.FlattenObservation),
    ("ReshapeObservation", "tag-grid", lambda envs: wrappers.ReshapeObservation(envs, (16, 16))),
    ("DtypeObservation", "cartpole", lambda envs: wrappers.DtypeObservation(envs, np.float64)),
    (
        "RescaleObservation",
        "mountain-car",
        lambda envs: wrappers.RescaleObservation(envs, np.float32(-1), np.float32(1)),
    ),
    ("TransformObservation", "cartpole", lambda envs: _all_observations(envs)),
    ("VectorizeTransformObservation", "cartpole", lambda envs: _each_observation(envs)),
    ("ClipAction", "pendulum", wrappers.ClipAction),
    ("RescaleAction", "pendulum", lambda envs: wrappers.RescaleAction(envs, -1, 1)),
    ("TransformAction", "cartpole", lambda envs: wrappers.TransformAction(envs, lambda actions: 1 - actions)),
]


def _each_reward(envs: VectorEnv[Any, Any, Any]) -> VectorEnv[Any, Any, Any]:
    return wrappers.VectorizeTransformReward(envs, gymnasium.wrappers.TransformReward, func=lambda reward: 2 * reward)


def _each_observation(envs: VectorEnv[Any, Any, Any]) -> VectorEnv[Any, Any, Any]:
    one_by_one = gymnasium.wrappers.TransformObservation
    return wrappers.VectorizeTransformObservation(envs, one_by_one, func=np.tanh, observation_space=UNIT)


def _all_observations(envs: VectorEnv[Any, Any, Any]) -> VectorEnv[Any, Any, Any]:
    batched = gymnasium.vector.utils.batch_space(UNIT, envs.num_envs)
    return wrappers.TransformObservation(envs, np.tanh, batched, UNIT)


def runner(name: str, **keywords: Any) -> Runner:
    if name == "tag-grid":
        # A wrapper that looks at observations does not mind that rows share an env.
        return hotloop.make_vec("tag", 3, options={"observation": "grid"}, **keywords)
    return hotloop.make_vec(name, 5, options={"masked": False} if name == "taxi" else {}, **keywords)


@pytest.mark.parametrize(("wrapper", "name", "wrap"), WRAPPERS, ids=[entry[0] for entry in WRAPPERS])
@pytest.mark.filterwarnings("ignore:.*The reward returned by `step.*")
def test_wrapper_works_unchanged(wrapper: str, name: str, wrap: Wrap) -> None:
    envs = wrap(runner(name))
    envs.reset(seed=0)
    rows = envs.num_envs
    info: Any = None
    envs.action_space.seed(0)
    for _ in range(120):
        actions: Any = np.zeros(rows, np.int64) if name == "tag-grid" else envs.action_space.sample()
        obs, reward, terminated, truncated, info = envs.step(actions)
        assert len(obs) == len(reward) == len(terminated) == len(truncated) == rows
        if wrapper != "NormalizeObservation":
            assert obs in envs.observation_space
    if wrapper == "DictInfoToList":
        assert isinstance(info, list)
        assert len(info) == rows
    envs.close()
    assert envs.unwrapped.closed


def test_info_as_a_list_has_masks_row_by_row() -> None:
    envs = wrappers.DictInfoToList(hotloop.make_vec("taxi", 3, infos=["prob"]))
    _, listed = envs.reset(seed=0)
    _, info = hotloop.make_vec("taxi", 3).reset(seed=0)
    assert [entry.keys() for entry in listed] == [{"action_mask", "prob"}] * 3
    assert np.array_equal([entry["action_mask"] for entry in listed], info["action_mask"])


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_recorded_statistics_are_the_cores(mode: str) -> None:
    envs = hotloop.make_vec("cartpole", 16, autoreset_mode=mode)
    recorded = wrappers.RecordEpisodeStatistics(envs, buffer_length=10_000)
    recorded.reset(seed=1)
    envs.action_space.seed(1)
    reports: list[float] = []
    for _ in range(400):
        info = recorded.step(envs.action_space.sample())[4]
        if "episode" in info:
            reports += info["episode"]["r"][info["_episode"]].tolist()
    report = envs.episodes()
    assert report.count == recorded.episode_count == len(reports) > 100
    assert report.recent.returns.tolist() == pytest.approx(reports)
    assert report.recent.lengths.tolist() == list(recorded.length_queue)


def test_partial_resets_go_through_wrappers() -> None:
    envs = hotloop.make_vec("cartpole", 3, autoreset_mode="disabled", options={"max_steps": 3})
    recorded = wrappers.RecordEpisodeStatistics(envs)
    recorded.reset(seed=0)
    envs.set_state({"elapsed_steps": [1]}, envs=[2])
    recorded.step([0, 0, 0])
    info = recorded.step([0, 0, 0])[4]
    assert info["episode"]["l"].tolist() == [0, 0, 2]
    recorded.reset(options={"reset_mask": np.array([False, False, True])})
    info = recorded.step([0, 0, 0])[4]
    assert info["_episode"].tolist() == [True, True, False]
