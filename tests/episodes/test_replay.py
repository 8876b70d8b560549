"""A replay is an episode again: written, read, and played to the same rewards and observations."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from hotloop import _core
from hotloop.episodes.actors import random_actor
from hotloop.episodes.episode import Episode
from hotloop.episodes.replay import Replay, read_replay, write_replay
from hotloop.errors import ReplayError
from tests.trajectories import VARIANTS, Variant, label


def played(env: str, options: dict[str, object] | None = None, *, seed: int = 3, index: int = 2) -> Replay:
    """A random episode."""
    episode = Episode(env, options or {}, seed=seed, index=index)
    episode.finish(random_actor(episode), longest=200)
    return Replay.of(episode, by="chance")


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_an_episode_comes_out_again_as_it_was(variant: Variant, tmp_path: Path) -> None:
    replay = played(*variant)
    assert replay.steps > 0
    write_replay(tmp_path / "it.replay", replay)
    again = read_replay(tmp_path / "it.replay")
    again.check()
    assert again.options == replay.options
    assert np.array_equal(again.actions, replay.actions)
    assert again.actions.dtype == replay.actions.dtype
    assert np.array_equal(again.rewards, replay.rewards)
    assert np.array_equal(again.observations, replay.observations)


def test_reward_weights_are_part_of_a_replay(tmp_path: Path) -> None:
    episode = Episode("cartpole", {}, seed=3, reward_weights={"reward": 0.5})
    episode.finish(random_actor(episode))
    write_replay(tmp_path / "it.replay", Replay.of(episode))
    again = read_replay(tmp_path / "it.replay")
    again.check()
    assert again.total == 0.5 * again.steps
    with pytest.raises(ReplayError, match="the reward of step 0 differs"):
        replace(again, reward_weights={}).check()


def test_the_key_is_that_of_a_runners_env() -> None:
    envs = _core.Pool("taxi", 5, num_threads=1, autoreset="same_step")
    envs.seed(11)
    obs, _ = envs.reset()
    episode = Episode("taxi", {}, seed=11, index=4)
    assert np.array_equal(episode.obs[0], obs[4])


def test_a_file_is_small_and_has_no_code(tmp_path: Path) -> None:
    write_replay(tmp_path / "it.replay", played("cartpole"))
    data = (tmp_path / "it.replay").read_bytes()
    assert len(data) < 4000
    length = int.from_bytes(data[:8], "little")
    facts = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["replay"])
    assert facts["env"] == "cartpole"
    assert facts["options"]["max_steps"] == 500


def test_every_changed_bit_of_the_content_is_noticed() -> None:
    replay = played("pendulum", {"max_steps": 20})
    actions = replay.actions.copy()
    actions[7] *= 0.5
    with pytest.raises(ReplayError, match="the reward of step 7 differs"):
        replace(replay, actions=actions).check()
    rewards = replay.rewards.copy()
    rewards[5, 0] += 1
    with pytest.raises(ReplayError, match="the reward of step 5 differs"):
        replace(replay, rewards=rewards).check()
    observations = replay.observations.copy()
    observations[20] ^= 1
    with pytest.raises(ReplayError, match="the last observation differs"):
        replace(replay, observations=observations).check()
    with pytest.raises(ReplayError, match="the observation before step 0 differs"):
        replace(replay, seed=4).check()
    with pytest.raises(ReplayError, match="differs"):
        replace(replay, options={**replay.options, "gravity": 9.0}).check()
    with pytest.raises(ReplayError, match="the length, which now ends at step 10"):
        replace(replay, options={**replay.options, "max_steps": 10}).check()


def test_replays_that_do_not_fit_this_version_are_refused() -> None:
    replay = played("cartpole")
    with pytest.raises(ReplayError, match="the env 'gone', which this version does not have"):
        replace(replay, env="gone").check()
    with pytest.raises(
        ReplayError, match=r"version 99 of cartpole, and this hotloop has version 1: show it with hotloop"
    ):
        replace(replay, state_version=99).check()
    with pytest.raises(ReplayError, match='options that this version refuses: cartpole has no option "wind"'):
        replace(replay, options={**replay.options, "wind": 1}).check()


def test_an_impossible_action_is_called_damage() -> None:
    replay = played("cartpole")
    actions = replay.actions.copy()
    actions[3] = 7
    with pytest.raises(ReplayError, match="damaged: at step 3, the action of row 0 is 7"):
        replace(replay, actions=actions).check()


def test_files_that_are_no_replays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "it.replay"
    with pytest.raises(ReplayError, match="there is no replay"):
        read_replay(path)
    path.write_bytes(b"not at all")
    with pytest.raises(ReplayError, match="is not a replay or is damaged"):
        read_replay(path)
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(ReplayError, match="is not a Hotloop replay"):
        read_replay(path)
    write_replay(path, played("cartpole"))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ReplayError, match="is not a replay or is damaged"):
        read_replay(path)
    save_file({"x": np.zeros(3)}, path, {"replay": json.dumps({"kind": "hotloop replay", "format": 2})})
    with pytest.raises(ReplayError, match="has format 2, this version reads 1"):
        read_replay(path)
    save_file({"x": np.zeros(3)}, path, {"replay": json.dumps({"kind": "hotloop replay", "format": 1})})
    with pytest.raises(ReplayError, match="is damaged: 'env'"):
        read_replay(path)
    write_replay(path, replace(played("cartpole"), rewards=np.zeros((2, 1), np.float32)))
    with pytest.raises(ReplayError, match=r"is damaged: \d+ actions, 2 rewards"):
        read_replay(path)
