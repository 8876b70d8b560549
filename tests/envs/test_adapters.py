"""Envs with several agents as rows: PettingZoo's two forms, and PufferLib's style."""

import re
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop.errors import SpaceError


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
        result = self._seen(), dict.fromkeys(self.agents, 1.0), ends, dict.fromkeys(self.agents, False)
        infos = {agent: {"action_mask": np.array([1, self.steps % 2])} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not ends[agent]]
        return *result, infos

    def close(self) -> None:
        pass


class SilentRace(Race):
    """The same, but the fall is not reported."""

    def step(self, actions: dict[str, int]) -> Any:
        obs, rewards, ends, *result = super().step(actions)
        return obs, rewards, {**ends, "b": False}, *result


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


class WorkerPool:
    """Three agents that restart independently, the first after four steps, the others after three and two."""

    num_agents = 3
    single_observation_space = spaces.Box(0, 255, (2,), np.uint8)
    single_action_space: spaces.Space[Any] = spaces.MultiDiscrete([2, 3])

    def reset(self, seed: int = 0) -> Any:
        self.steps = np.zeros(3, np.uint8)
        return self._seen(), []

    def _seen(self) -> Any:
        return np.stack([self.steps] * 2, axis=1)

    def step(self, actions: Any) -> Any:
        assert (actions.shape, actions.dtype) == ((3, 2), np.int32)
        self.steps += 1
        ends = self.steps == [4, 3, 2]
        self.steps[ends] = 0
        return self._seen(), actions[:, 1] + 1.0, ends & [True, True, False], ends & [False, False, True], []

    def close(self) -> None:
        pass


def make(env: Any) -> Any:
    return hotloop.make_vec(env, 2, num_workers=0, autoreset_mode="same_step")


@pytest.mark.parametrize("env", [Race, SilentRace])
def test_parallel_agents_are_rows_and_the_dead_do_not_decide(env: Any) -> None:
    with make(env) as runner:
        _, info = runner.reset(seed=0)
        assert (runner.seats, runner.num_envs) == (2, 4)
        valid, ends = [info["valid"].tolist()], []
        for _ in range(5):
            _, _, terminated, _, info = runner.step([0] * 4)
            valid.append(info["valid"].tolist())
            ends.append(terminated[:2].tolist())
        assert [two[1] for two in valid] == [True, True, True, False, False, True]
        assert ends == [[False, False], [False, False], [False, True], [False, False], [True, False]]
        result = runner.episodes()
        assert (result.count, result.recent.lengths.tolist()) == (4, [5, 3, 5, 3])
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


@pytest.mark.parametrize("autoreset_mode", ["same_step", "next_step"])
def test_agents_that_restart_independently_have_episodes_of_their_own(autoreset_mode: str) -> None:
    with hotloop.make_vec(WorkerPool, 2, num_workers=0, autoreset_mode=autoreset_mode) as runner:
        runner.reset(seed=0)
        actions = np.array([[0, 0], [0, 1], [1, 2]] * 2)
        ends, seen = [], []
        for _ in range(12):
            obs, _, terminated, truncated, info = runner.step(actions)
            assert info["valid"].all()
            assert not truncated.any()
            ends.append(terminated[:3].tolist())
            seen.append(obs[3:, 0].tolist())
        assert ends == [[i % 4 == 0, i % 3 == 0, i % 2 == 0] for i in range(1, 13)]
        assert seen == [[i % 4, i % 3, i % 2] for i in range(1, 13)]
        result = runner.episodes()
        assert result.count == 2 * (3 + 4 + 6)
        by_row = {row: (result.recent.returns[result.recent.rows == row].tolist()) for row in range(6)}
        assert by_row == {row: [[4.0] * 3, [6.0] * 4, [6.0] * 6][row % 3] for row in range(6)}
        assert set(result.recent.numbers) == {0}


class Lone(WorkerPool):
    """One such agent, whose actions are counted from 1."""

    num_agents = 1
    single_action_space = spaces.Discrete(2, start=1)

    def step(self, actions: Any) -> Any:
        assert actions.tolist() == [2]
        obs, _, terminals, truncations, _ = super().step(np.zeros((3, 2), np.int32))
        return obs[:1], np.ones(1), terminals[:1], truncations[:1], []

    def _seen(self) -> Any:
        return super()._seen()[: self.num_agents]


def test_one_agent_that_restarts_by_itself() -> None:
    with make(Lone) as runner:
        runner.reset(seed=0)
        ends = [runner.step([2, 2])[2].tolist() for _ in range(8)]
        assert ends == [[False] * 2] * 3 + [[True] * 2] + [[False] * 2] * 3 + [[True] * 2]
        assert (runner.episodes().count, runner.episodes().count) == (4, 0)


class Padded(WorkerPool):
    """The last agent is not there."""

    masks = np.array([True, True, False])


def test_agents_that_are_masked_out_are_not_valid() -> None:
    with make(Padded) as runner:
        _, info = runner.reset(seed=0)
        assert info["valid"].tolist() == [True, True, False] * 2


@pytest.mark.parametrize(
    ("gives", "what"),
    [
        ((np.zeros((3, 3), np.uint8), np.ones(3)), "observations have shape (3, 3): expected (3, 2)"),
        ((np.zeros((3, 2), np.float32), np.ones(3)), "observations have dtype float32"),
        ((np.zeros((3, 2), np.uint8), ["a"] * 3), "expected numbers"),
        ((np.zeros((3, 2), np.uint8), [0, np.nan, 0]), "reward is nan"),
    ],
)
def test_what_a_vector_env_must_not_give(gives: Any, what: str) -> None:
    class Bad(WorkerPool):
        def step(self, actions: Any) -> Any:
            return *gives, np.zeros(3, bool), np.zeros(3, bool), []

    with make(Bad) as runner:
        runner.reset(seed=0)
        with pytest.raises(RuntimeError, match=re.escape(what)):
            runner.step(np.zeros((6, 2), np.int64))


def test_a_vector_env_whose_spaces_are_not_plain_is_refused() -> None:
    class Nested(WorkerPool):
        single_action_space = spaces.Tuple([spaces.Discrete(2)])

    with pytest.raises(ValueError, match="is none of Discrete, MultiDiscrete, Box"):
        make(Nested)


class Emulated:
    """As PufferLib wraps a Gymnasium env: what is inside is adapted."""

    emulated: ClassVar = {"observation_dtype": np.float32}

    def __init__(self) -> None:
        self.env = gymnasium.make("CartPole-v1", max_episode_steps=3)


def test_a_wrapped_single_env_keeps_its_time_limit() -> None:
    with make(Emulated) as runner:
        runner.reset(seed=0)
        assert [runner.step([0, 1])[3].any() for _ in range(3)] == [False, False, True]


class Roles:
    """Two agents that act at once: a scout who sees two numbers and has three actions, and a guard with one and two."""

    possible_agents = ("scout", "guard", "scout-2")

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-1, 5, (1 if agent == "guard" else 2,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(2, start=7) if agent == "guard" else spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        return self._seen(), {agent: {} for agent in self.agents}

    def _seen(self) -> Any:
        return {agent: np.full(self.observation_space(agent).shape, 4, np.float32) for agent in self.agents}

    def step(self, actions: Any) -> Any:
        assert actions == {"scout": 2, "guard": 8, "scout-2": 0}
        values: tuple[Any, ...] = (1.0, False, False, {})
        rest = (dict.fromkeys(self.agents, value) for value in values)
        return self._seen(), *rest

    def close(self) -> None:
        pass


def test_agents_with_different_spaces_are_padded_and_masked() -> None:
    with make(Roles) as runner:
        obs, info = runner.reset(seed=0)
        # Two numbers, and the role.
        assert obs[:3].tolist() == [[4, 4, 1, 0], [4, 0, 0, 1], [4, 4, 1, 0]]
        assert info["action_mask"][:3].tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 1]]
        assert runner.step([2, 1, 0] * 2)[1].tolist() == [1.0] * 6
        with pytest.raises(ValueError, match=r"row 1 is \[2\], which its mask forbids"):
            runner.step([2, 2, 0] * 2)


class Mixed(Roles):
    """A scout with a choice, a guard with two real numbers, and one with both; takes what each was sent."""

    sent: ClassVar[list[Any]] = []

    def action_space(self, agent: str) -> spaces.Space[Any]:
        guard = spaces.Box(np.array([-10, 0], np.float32), np.array([10, 1], np.float32))
        both = spaces.Dict({"a": spaces.MultiDiscrete([2, 4]), "b": spaces.Box(-1, 1, (1,), np.float32)})
        return {"scout": spaces.Discrete(3, start=5), "guard": guard}.get(agent, both)

    def step(self, actions: Any) -> Any:
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action), action
        self.sent.append(actions)
        values: tuple[Any, ...] = (1.0, False, False, {})
        return self._seen(), *(dict.fromkeys(self.agents, value) for value in values)


def test_agents_with_different_kinds_of_actions_share_one_hybrid_action() -> None:
    with make(Mixed) as runner:
        choices, reals = runner.single_action_space.spaces
        assert choices.nvec.tolist() == [3, 4]
        assert reals == spaces.Box(-1, 1, (2,), np.float32)
        _, info = runner.reset(seed=0)
        # Sets that an agent does not have leave one choice; so does a set with fewer choices leave fewer.
        assert info["action_mask"][:3].tolist() == [[1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0, 0], [1, 1, 0, 1, 1, 1, 1]]
        row = [[2, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [1, 3, 0.5, -1.0]]
        runner.step(np.array(row * 2, np.float32))
        sent = Mixed.sent[0]
        assert sent["scout"] == 7
        # Scaled to the agent's own bounds.
        assert sent["guard"].tolist() == [5, 0.75]
        assert (sent["scout-2"]["a"].tolist(), sent["scout-2"]["b"].tolist()) == ([1, 3], [0.5])
        with pytest.raises(ValueError, match="which its mask forbids"):
            runner.step(np.array([row[0], [1, 0, 0.0, 0.0], row[2]] * 2, np.float32))


def test_observations_that_cannot_be_padded_are_named() -> None:
    class Seeing(Roles):
        def observation_space(self, agent: str) -> spaces.Space[Any]:
            return spaces.Box(0, 1, (2, 2)) if agent == "guard" else spaces.Box(0, 1, (3,))

    with pytest.raises(SpaceError, match=r"agent 'guard' is Box\(.*padded only if all of them are vectors"):
        make(Seeing)
