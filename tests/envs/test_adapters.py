"""Envs with several agents as rows: PettingZoo's two forms, and PufferLib's style."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import hotloop


class Race:
    """Two agents run at the same time; the second one falls at its third step."""

    possible_agents = ("a", "b")

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(0, 10, (1,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.steps = list(self.possible_agents), 0
        return self._seen(), {agent: {"action_mask": np.array([1, 1])} for agent in self.agents}

    def _seen(self) -> dict[str, Any]:
        return {agent: np.full(1, self.steps, np.float32) for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        assert set(actions) == set(self.agents)
        self.steps += 1
        ends = {agent: self.steps >= (3 if agent == "b" else 5) for agent in self.agents}
        told = self._seen(), dict.fromkeys(self.agents, 1.0), ends, dict.fromkeys(self.agents, False)
        infos = {agent: {"action_mask": np.array([1, self.steps % 2])} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not ends[agent]]
        return *told, infos

    def close(self) -> None:
        pass


class Turns:
    """Two agents move in turn, three times each."""

    possible_agents = ("x", "o")

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        board = spaces.Box(0, 10, (1,), np.int8)
        return spaces.Dict({"observation": board, "action_mask": spaces.Box(0, 1, (2,), np.int8)})

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.moves, self.agent_selection = list(self.possible_agents), 0, "x"
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}

    def agent_iter(self) -> Any:
        raise NotImplementedError

    def observe(self, agent: str) -> Any:
        return {"observation": np.full(1, self.moves, np.int8), "action_mask": self._mask(agent)}

    def _mask(self, agent: str) -> Any:
        return np.array([1, agent == "x"], np.int8) * (agent == self.agent_selection)

    def step(self, action: int | None) -> None:
        if action is None:
            self.agents.remove(self.agent_selection)
            self.agent_selection = self.agents[0] if self.agents else ""
            return
        self.moves += 1
        self.rewards = {"x": 1.0, "o": -1.0} if self.moves == 6 else dict.fromkeys(self.possible_agents, 0.0)
        self.terminations = dict.fromkeys(self.possible_agents, self.moves == 6)
        self.agent_selection = "xo"[self.moves % 2]

    def close(self) -> None:
        pass


class Herd:
    """Three agents that start anew by themselves after four steps."""

    num_agents = 3
    single_observation_space = spaces.Box(0, 255, (2,), np.uint8)
    single_action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, seed: int = 0) -> Any:
        self.steps = 0
        return np.zeros((3, 2), np.uint8), []

    def step(self, actions: Any) -> Any:
        assert actions.shape == (3, 2)
        self.steps = (self.steps + 1) % 4
        ends = np.full(3, self.steps == 0)
        return np.full((3, 2), self.steps, np.uint8), np.ones(3), ends, np.zeros(3, bool), []

    def close(self) -> None:
        pass


def make(env: Any) -> Any:
    return hotloop.make_vec(env, 2, num_workers=0, autoreset_mode="same_step")


def test_parallel_agents_are_rows_and_the_dead_do_not_decide() -> None:
    with make(Race) as runner:
        _, info = runner.reset(seed=0)
        assert (runner.seats, runner.num_envs) == (2, 4)
        valid, ends = [info["valid"].tolist()], []
        for _ in range(5):
            _, _, terminated, _, info = runner.step([0] * 4)
            valid.append(info["valid"].tolist())
            ends.append(terminated[:2].tolist())
        assert [two[1] for two in valid] == [True, True, True, False, False, True]
        assert ends == [[False, False], [False, False], [False, True], [False, False], [True, False]]
        told = runner.episodes()
        assert (told.count, told.recent.lengths.tolist()) == (4, [5, 3, 5, 3])
        with pytest.raises(ValueError, match="row 0 is \\[1\\], which its mask forbids"):
            runner.step([0] * 4), runner.step([0] * 4), runner.step([1] * 4)


def test_agents_that_move_in_turn_decide_one_at_a_time() -> None:
    with make(Turns) as runner:
        _, info = runner.reset(seed=0)
        for move in range(6):
            assert info["valid"].tolist() == [move % 2 == 0, move % 2 == 1] * 2
            # All is allowed to who waits, though the env allows it nothing.
            assert info["action_mask"][:2].tolist() == [[1, 1], [1, move % 2 == 0]]
            _, reward, terminated, _, info = runner.step([0] * 4)
        assert reward.tolist() == [1.0, -1.0] * 2
        assert terminated.all()
        assert info["valid"].tolist() == [True, False] * 2
        assert runner.episodes().recent.lengths.tolist() == [3] * 4


def test_envs_that_start_anew_by_themselves_end_as_they_say() -> None:
    with make(Herd) as runner:
        runner.reset(seed=0)
        ends = [bool(runner.step(np.zeros((6, 2), np.int64))[2].all()) for _ in range(8)]
        assert ends == [False, False, False, True] * 2
        assert runner.episodes().return_mean == 4.0
