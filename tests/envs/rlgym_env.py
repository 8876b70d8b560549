# mypy: disable-error-code="misc"
"""A small world in RLGym 2's own terms: two agents push a number, for four steps."""

from typing import Any

import numpy as np
from rlgym.api import ActionParser, DoneCondition, ObsBuilder, RewardFunction, RLGym, StateMutator, TransitionEngine

AGENTS = ["blue", "orange"]


class Engine(TransitionEngine[str, Any, Any]):
    state: Any = None
    agents = AGENTS
    max_num_agents = 2
    config: Any = None

    def create_base_state(self) -> Any:
        return {"place": 0.0, "steps": 0}

    def set_state(self, desired_state: Any, shared_info: Any) -> Any:
        self.state = desired_state
        return self.state

    def step(self, actions: Any, shared_info: Any) -> Any:
        self.state = {"place": self.state["place"] + sum(actions.values()), "steps": self.state["steps"] + 1}
        return self.state

    def close(self) -> None:
        pass


class Mutator(StateMutator[Any]):
    def apply(self, state: Any, shared_info: Any) -> None:
        state["place"] = np.random.rand()  # noqa: NPY002 - as RLGym's own mutators do


class Obs(ObsBuilder[str, Any, Any, Any]):
    def get_obs_space(self, agent: str) -> Any:
        return "real", 2

    def reset(self, agents: Any, initial_state: Any, shared_info: Any) -> None:
        pass

    def build_obs(self, agents: Any, state: Any, shared_info: Any) -> Any:
        return {agent: np.array([state["place"], agent == "blue"], np.float32) for agent in agents}


class Parser(ActionParser[str, Any, Any, Any, Any]):
    def get_action_space(self, agent: str) -> Any:
        return "discrete", 3

    def reset(self, agents: Any, initial_state: Any, shared_info: Any) -> None:
        pass

    def parse_actions(self, actions: Any, state: Any, shared_info: Any) -> Any:
        return {agent: float(action[0]) - 1 for agent, action in actions.items()}


class Reward(RewardFunction[str, Any, float]):
    def reset(self, agents: Any, initial_state: Any, shared_info: Any) -> None:
        pass

    def get_rewards(self, agents: Any, state: Any, terminated: Any, truncated: Any, shared_info: Any) -> Any:
        return dict.fromkeys(agents, state["place"])


class Done(DoneCondition[str, Any]):
    def reset(self, agents: Any, initial_state: Any, shared_info: Any) -> None:
        pass

    def is_done(self, agents: Any, state: Any, shared_info: Any) -> Any:
        return dict.fromkeys(agents, state["steps"] >= 4)


def make() -> Any:
    """The env."""
    return RLGym(Mutator(), Obs(), Parser(), Reward(), Engine(), termination_cond=Done())
