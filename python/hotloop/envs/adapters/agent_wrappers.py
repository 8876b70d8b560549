"""Wrappers of PettingZoo envs that the config's section `wrap` asks for.

Each agent's observations and rewards pass through its own chain of the wrappers for Gymnasium envs. Frame skip, sticky
actions and the time limit, which concern the actions or all agents at once, are done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces

from hotloop.envs.adapters.rows import number
from hotloop.envs.adapters.wrappers import wrapped
from hotloop.errors import SpaceError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Wrappers that are applied to each agent.
_STATELESS: Final = ("grey_scale", "resize", "clip_reward")
_PER_AGENT: Final = (*_STATELESS, "frame_stack")
_SIMULTANEOUS: Final = (*_PER_AGENT, "frame_skip", "max_frames", "sticky_actions", "time_limit")
_IN_TURNS: Final = (*_STATELESS, "time_limit")


class _AgentView(gymnasium.Env[Any, Any]):
    """One agent, as far as wrappers of observations and rewards need it: returns the result that was set."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.result: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Return the result."""
        return self.result

    def step(self, action: Any) -> Any:
        """Return the result."""
        return self.result


class _AgentWrappers:
    """The common part: agents, their spaces and their chains of wrappers."""

    def __init__(self, env: Any, wrap: Mapping[str, Any], supported: tuple[str, ...], kind: str) -> None:
        if unsupported := [f"wrap.{name}" for name, value in wrap.items() if value and name not in supported]:
            raise SpaceError(f"{', '.join(unsupported)}: not for envs with {kind}")
        self._env = env
        self.possible_agents = list(env.possible_agents)
        own = {name: wrap[name] for name in _PER_AGENT if name in wrap}
        self._views = {
            agent: _AgentView(env.observation_space(agent), env.action_space(agent)) for agent in self.possible_agents
        }
        self._chains = {agent: wrapped(view, own) for agent, view in self._views.items()}
        self._limit: int | None = wrap.get("time_limit")
        self._elapsed = 0

    def __getattr__(self, name: str) -> Any:
        if name == "_env":
            raise AttributeError(name)
        return getattr(self._env, name)

    def observation_space(self, agent: Any) -> spaces.Space[Any]:
        """Return the space of an agent's wrapped observations."""
        space: spaces.Space[Any] = self._chains[agent].observation_space
        return space

    def _begin(self, agent: Any, obs: Any) -> Any:
        """Return an agent's first observation of an episode."""
        self._views[agent].result = (obs, {})
        return self._chains[agent].reset()[0]

    def _next(self, agent: Any, obs: Any, reward: float) -> tuple[Any, float]:
        """Return an agent's next observation and reward."""
        self._views[agent].result = (obs, reward, False, False, {})
        shown, clipped, *_ = self._chains[agent].step(None)
        return shown, clipped

    def _at_limit(self) -> bool:
        return self._limit is not None and self._elapsed >= self._limit


class WrappedParallelEnv(_AgentWrappers):
    """A parallel env with wrappers."""

    def __init__(self, env: Any, wrap: Mapping[str, Any]) -> None:
        super().__init__(env, wrap, _SIMULTANEOUS, "several agents")
        self._skip: int = wrap.get("frame_skip", 1)
        self._max: bool = wrap.get("max_frames", False)
        self._stickiness: float = wrap.get("sticky_actions", 0.0)
        self._random = np.random.default_rng(0)
        self._last: dict[Any, Any] = {}
        self._begun: set[Any] = set()
        for agent, view in self._views.items():
            if self._max and not isinstance(view.observation_space, spaces.Box):
                raise SpaceError(f"wrap.max_frames needs images: agent {agent!r} observes {view.observation_space}")

    @property
    def agents(self) -> list[Any]:
        """Agents that are alive; none after the time limit."""
        return [] if self._at_limit() else self._env.agents

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        if seed is not None:
            self._random = np.random.default_rng([seed, 1])
        self._elapsed = 0
        self._last.clear()
        obs, infos = self._env.reset(seed=seed, options=options)
        self._begun = set(obs)
        return {agent: self._begin(agent, seen) for agent, seen in obs.items()}, infos

    def step(self, actions: Mapping[Any, Any]) -> Any:
        """Step all agents, as often as frame_skip says; it stops early where an agent leaves or joins."""
        decided = {agent: self._sticky(agent, action) for agent, action in actions.items()}
        alive = set(self._env.agents)
        totals: dict[Any, float] = {}
        obs: dict[Any, Any] = {}
        for _ in range(self._skip):
            before = obs
            obs, rewards, terminated, truncated, infos = self._env.step(decided)
            for agent, reward in rewards.items():
                totals[agent] = totals.get(agent, 0.0) + number(reward)
            if set(self._env.agents) != alive or any(terminated.values()) or any(truncated.values()):
                break
        if self._max:
            obs = {agent: np.maximum(before[agent], seen) if agent in before else seen for agent, seen in obs.items()}
        shown = {}
        for agent, seen in obs.items():
            if agent not in self._begun:
                self._begun.add(agent)
                self._begin(agent, seen)
            shown[agent], totals[agent] = self._next(agent, seen, totals.get(agent, 0.0))
        self._elapsed += 1
        if self._at_limit():
            truncated = {agent: not terminated.get(agent, False) for agent in alive}
        return shown, totals, terminated, truncated, infos

    def _sticky(self, agent: Any, action: Any) -> Any:
        """Return an agent's action, or its previous one again."""
        if agent not in self._last or not self._stickiness or self._random.random() >= self._stickiness:
            self._last[agent] = action
        return self._last[agent]


class WrappedAecEnv(_AgentWrappers):
    """An env whose agents act one after the other, with wrappers."""

    def __init__(self, env: Any, wrap: Mapping[str, Any]) -> None:
        super().__init__(env, wrap, _IN_TURNS, "agents that act in turns")
        self._bound: float = wrap.get("clip_reward") or np.inf
        self._stopped = False

    @property
    def agents(self) -> list[Any]:
        """Agents that are alive; none after the time limit."""
        return [] if self._stopped else self._env.agents

    @property
    def rewards(self) -> dict[Any, float]:
        """Clipped rewards."""
        return {agent: min(max(number(x), -self._bound), self._bound) for agent, x in self._env.rewards.items()}

    @property
    def truncations(self) -> dict[Any, bool]:
        """Agents that were truncated: all of them at the time limit, which counts turns."""
        return {agent: self._at_limit() or was for agent, was in self._env.truncations.items()}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode."""
        self._elapsed = 0
        self._stopped = False
        self._env.reset(seed=seed, options=options)

    def observe(self, agent: Any) -> Any:
        """Return an agent's wrapped observation."""
        return self._begin(agent, self._env.observe(agent))

    def step(self, action: Any) -> None:
        """Take the action of the agent whose turn it is; `None` removes one that is over."""
        if action is None and self._at_limit():
            self._stopped = True
            return
        self._env.step(action)
        if action is not None:
            self._elapsed += 1
