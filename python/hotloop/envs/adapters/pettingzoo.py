"""PettingZoo envs: a row for each possible agent; dead agents and those that wait for their turn do not decide."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.envs.adapters.packages import pettingzoo_module
from hotloop.envs.adapters.rows import number
from hotloop.envs.adapters.seats import Seats

if TYPE_CHECKING:
    from collections.abc import Mapping


def make(module: str, options: Mapping[str, Any]) -> Any:
    """Return the env of `classic.tictactoe_v3` and the like; its parallel form where there is one."""
    with warnings.catch_warnings():
        # PettingZoo recommends its registry, which does not have envs of other packages.
        warnings.simplefilter("ignore", DeprecationWarning)
        found = pettingzoo_module(module)
    factory = getattr(found, "parallel_env", None) or getattr(found, "env", None)
    if factory is None:
        raise AttributeError(f"the module {found.__name__} has neither parallel_env nor env")
    return factory(**options)


def _seats(env: Any, infos: Mapping[Any, Any]) -> Seats:
    agents = list(env.possible_agents)
    masked = any("action_mask" in info for info in infos.values())
    return Seats(agents, list(map(env.observation_space, agents)), list(map(env.action_space, agents)), masked=masked)


class ParallelEnv(Seats):
    """Agents that act at the same time."""

    def __init__(self, env: Any) -> None:
        self._env = self.env = env
        _, infos = env.reset(seed=0)
        seats = _seats(env, infos)
        self.__dict__.update(seats.__dict__)
        self._over = np.zeros(len(self.agents), np.bool_)

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start an episode."""
        obs, infos = self._env.reset(seed=seed, options=options)
        self._over[:] = False
        self._look(obs, infos)

    def step(self, actions: Any) -> bool:
        """Step all living agents."""
        alive = set(self._env.agents)
        decided = {
            agent: self.decode(seat, action)
            for seat, (agent, action) in enumerate(zip(self.agents, actions, strict=True))
            if agent in alive
        }
        obs, rewards, terminated, truncated, infos = self._env.step(decided)
        rows, over = self.rows, self._over
        # Written as one array, which is faster than single numbers.
        rows.reward[:] = [number(rewards.get(agent, 0.0)) for agent in self.agents]
        ends = np.array([agent in alive and bool(terminated.get(agent, False)) for agent in self.agents])
        limits = np.array([agent in alive and bool(truncated.get(agent, False)) for agent in self.agents])
        if left := alive.difference(self._env.agents):
            # Some envs remove agents without reporting their end.
            ends |= np.array([agent in left for agent in self.agents]) & ~limits
        np.greater(ends, over, out=rows.terminated)
        np.greater(limits, over | ends, out=rows.truncated)
        over |= ends | limits
        self._look(obs, infos)
        return bool(over.all()) or not self._env.agents

    def _look(self, obs: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        np.logical_not(self._over, out=self.rows.valid)
        for seat, agent in enumerate(self.agents):
            if agent in obs:
                self.show(seat, obs[agent], infos.get(agent, {}))
            else:
                self.blank(seat)

    def close(self) -> None:
        """Close the env."""
        self._env.close()


class AecEnv(Seats):
    """Agents that act one after the other; only the one whose turn it is decides."""

    def __init__(self, env: Any) -> None:
        self._env = self.env = env
        env.reset(seed=0)
        seats = _seats(env, env.infos)
        self.__dict__.update(seats.__dict__)
        self._seat = {agent: seat for seat, agent in enumerate(self.agents)}
        self._over = np.zeros(len(self.agents), np.bool_)

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start an episode."""
        self._env.reset(seed=seed, options=options)
        self._over[:] = False
        for seat in range(len(self.agents)):
            self._show(seat)
        self._turn()

    def step(self, actions: Any) -> bool:
        """Step the agent whose turn it is."""
        env, rows = self._env, self.rows
        seat = self._seat[env.agent_selection]
        env.step(self.decode(seat, actions[seat]))
        rows.reward[:] = [number(env.rewards.get(agent, 0.0)) for agent in self.agents]
        for seat, agent in enumerate(self.agents):
            if not self._over[seat]:
                rows.terminated[seat] = bool(env.terminations.get(agent, False))
                rows.truncated[seat] = bool(env.truncations.get(agent, False)) and not rows.terminated[seat]
                self._over[seat] = rows.terminated[seat] or rows.truncated[seat]
                self._show(seat)
        # A dead agent has one last turn without an action.
        while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
            env.step(None)
        if not env.agents or self._over.all():
            return True
        self._turn()
        return False

    def _show(self, seat: int) -> None:
        agent = self.agents[seat]
        if agent in self._env.agents:
            self.show(seat, self._env.observe(agent), self._env.infos.get(agent, {}))

    def _turn(self) -> None:
        self.rows.valid[:] = False
        seat = self._seat[self._env.agent_selection]
        self.rows.valid[seat] = True
        self._show(seat)
        if self.rows.mask is not None:
            # The mask of a waiting agent may be empty, which no policy can sample from.
            self.rows.mask[~self.rows.valid] = 1

    def close(self) -> None:
        """Close the env."""
        self._env.close()
