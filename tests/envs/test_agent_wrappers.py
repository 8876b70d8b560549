"""Wrappers of PettingZoo envs: each agent has its own."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop.errors import SpaceError
from tests.envs.test_adapters import WorkerPool as Vector


class March:
    """Two agents walk by their actions; `b` leaves after `leaves` steps. Rewards are the positions."""

    metadata: ClassVar[dict[str, Any]] = {"name": "march"}
    possible_agents: ClassVar[list[str]] = ["a", "b"]

    def __init__(self, leaves: int = 1000) -> None:
        self._leaves = leaves
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-1000.0, 1000.0, (1,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(10)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents = list(self.possible_agents)
        self.steps = 0
        self.at = {"a": 0.0, "b": 100.0}
        return self._obs(), {agent: {} for agent in self.agents}

    def _obs(self) -> dict[str, Any]:
        return {agent: np.array([self.at[agent]], np.float32) for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        assert set(actions) == set(self.agents)
        self.steps += 1
        for agent, action in actions.items():
            self.at[agent] += action
        obs = self._obs()
        over = {agent: agent == "b" and self.steps >= self._leaves for agent in self.agents}
        rewards = {agent: self.at[agent] for agent in self.agents}
        infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not over[agent]]
        return obs, rewards, over, dict.fromkeys(over, False), infos

    def close(self) -> None:
        pass


def make(env: Any = March, *, options: dict[str, Any] | None = None, **wrap: Any) -> Any:
    runner = hotloop.make_vec(
        env, num_envs=1, num_workers=0, autoreset_mode="same_step", options=options or {}, wrap=wrap
    )
    runner.reset(seed=0)
    return runner


def test_every_agent_has_a_stack_of_its_own_observations() -> None:
    with make(frame_stack=3) as runner:
        assert runner.single_observation_space.shape == (3,)
        assert runner.reset(seed=0)[0].tolist() == [[0, 0, 0], [100, 100, 100]]
        assert runner.step([1, 2])[0].tolist() == [[0, 0, 1], [100, 100, 102]]
        assert runner.step([1, 2])[0].tolist() == [[0, 1, 2], [100, 102, 104]]


def test_actions_are_repeated_and_rewards_summed() -> None:
    with make(frame_skip=3) as runner:
        obs, reward, *_ = runner.step([1, 2])
        assert obs.tolist() == [[3], [106]]
        assert reward.tolist() == [1 + 2 + 3, 102 + 104 + 106]
    with make(frame_skip=3, max_frames=True) as runner:
        assert runner.step([1, 2])[0].tolist() == [[3], [106]]


def test_repeating_stops_where_an_agent_leaves() -> None:
    with make(options={"leaves": 2}, frame_skip=3) as runner:
        obs, reward, terminated, truncated, info = runner.step([1, 2])
        assert obs[:, 0].tolist() == [2, 104]
        assert reward.tolist() == [1 + 2, 102 + 104]
        assert terminated.tolist() == [False, True]
        assert not truncated.any()
        assert info["valid"].tolist() == [True, False]


def test_rewards_are_clipped_for_each_agent() -> None:
    with make(clip_reward=2.0) as runner:
        assert runner.step([1, 2])[1].tolist() == [1, 2]
        assert runner.step([5, 2])[1].tolist() == [2, 2]


def test_a_time_limit_truncates_all_agents_with_their_last_observations() -> None:
    with make(time_limit=2) as runner:
        runner.step([1, 2])
        obs, _, terminated, truncated, info = runner.step([1, 2])
        assert truncated.tolist() == [True, True]
        assert not terminated.any()
        assert [final.tolist() for final in info["final_obs"]] == [[2], [104]]
        assert obs.tolist() == [[0], [100]]
        assert not runner.step([1, 2])[3].any()


def test_a_sticky_action_is_the_agents_own_previous_one() -> None:
    with make(sticky_actions=0.5) as runner:
        moves = []
        before = np.array([0, 100])
        for step in range(40):
            now = runner.step([step % 2, 5 + step % 2])[0][:, 0]
            moves.append((now - before).tolist())
            before = now
    kept = [[move[seat] != base + step % 2 for step, move in enumerate(moves)] for seat, base in enumerate((0, 5))]
    assert moves[0] == [0, 5]
    assert 5 < sum(kept[0]) < 35
    assert kept[0] != kept[1]
    assert all(move[0] in (0, 1) and move[1] in (5, 6) for move in moves)


def test_turns_are_limited_and_their_rewards_clipped() -> None:
    env = "pettingzoo:classic.tictactoe_v3"
    with make(env, time_limit=3, clip_reward=0.5) as runner:
        for cell in range(2):
            assert not runner.step([cell, cell])[3].any()
        _, _, terminated, truncated, info = runner.step([2, 2])
        assert truncated.tolist() == [True, True]
        assert not terminated.any()
        # Three marks are on the board of the final observations.
        assert [int(final.sum()) for final in info["final_obs"]] == [3, 3]
    with make(env, clip_reward=0.5) as runner:
        for cell in (0, 3, 1, 4):
            runner.step([cell, cell])
        assert sorted(runner.step([2, 2])[1].tolist()) == [-0.5, 0.5]


@pytest.mark.parametrize(
    ("env", "wrap", "words"),
    [
        ("pettingzoo:classic.rps_v2", {"frame_stack": 2}, "wrap.frame_stack needs vectors or images"),
        ("pettingzoo:classic.tictactoe_v3", {"frame_skip": 2}, "wrap.frame_skip: not for envs with agents that act in"),
        (March, {"no_op_start": 2}, "wrap.no_op_start: not for envs with several agents"),
        (March, {"grey_scale": True}, "wrap.grey_scale needs RGB images"),
        (Vector, {"time_limit": 2}, "wrap.time_limit: wrappers are for Gymnasium and PettingZoo envs, not for Worker"),
    ],
)
def test_wrappers_that_do_not_fit_are_named(env: Any, wrap: dict[str, Any], words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        hotloop.make_vec(env, num_envs=1, num_workers=0, wrap=wrap)


def test_a_run_is_trained_with_wrapped_agents(tmp_path: Path) -> None:
    config = {
        "wrap.frame_stack": 2,
        "wrap.time_limit": 8,
        "wrap.clip_reward": 1.0,
        "runner.num_envs": 4,
        "runner.num_workers": 1,
        "ppo.horizon": 16,
        "ppo.minibatch_size": 64,
        "train.evaluate_episodes": 2,
    }
    run = hotloop.train("tests.envs.test_agent_wrappers:March", steps=256, config=config, home=tmp_path)
    assert run.evaluation is not None
    assert run.evaluation.length_mean == 8
    # Evaluations report the returns of the env itself: agent b alone has 100 in each step.
    assert run.evaluation.mean > 8 * 50
    assert hotloop.load(run.path).spec.observation.shape == (2,)
