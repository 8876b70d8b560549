"""Agents with different spaces in one env: padded to common ones, so that one policy can play all of them.

Observations are filled up with zeros, and end with the agent's role, one-hot: agents with equal spaces share a role.
Discrete actions that an agent does not have are masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from hotloop.envs.flatten import FlatAction, FlatObservation
from hotloop.envs.spec import BoxObservation
from hotloop.errors import SpaceError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Padding:
    """Common spaces of agents whose own spaces differ."""

    def __init__(self, agents: list[Any], observations: list[Any], actions: list[Any]) -> None:
        self._flat = [FlatObservation(space) for space in observations]
        self.actions = [FlatAction(space) for space in actions]
        for agent, space, flat in zip(agents, observations, self._flat, strict=True):
            if not isinstance(flat.spec, BoxObservation) or len(flat.shape) != 1:
                raise SpaceError(
                    f"the observation space of agent {agent!r} is {space}, that of {agents[0]!r} is {observations[0]}: "
                    "different spaces can be padded only if all of them are vectors"
                )
        same_actions = all(space == actions[0] for space in actions)
        if not same_actions and not all(isinstance(space, spaces.Discrete) for space in actions):
            different = next(i for i, space in enumerate(actions) if space != actions[0])
            raise SpaceError(
                f"the action space of agent {agents[different]!r} is {actions[different]}, that of {agents[0]!r} is "
                f"{actions[0]}: different spaces can be padded only if all of them are discrete"
            )
        roles: list[Any] = []
        for pair in zip(observations, actions, strict=True):
            if pair not in roles:
                roles.append(pair)
        self._roles = [roles.index(pair) for pair in zip(observations, actions, strict=True)]
        self._size = max(flat.shape[0] for flat in self._flat)
        low, high = np.zeros(self._size + len(roles), np.float32), np.ones(self._size + len(roles), np.float32)
        for flat in self._flat:
            assert isinstance(flat.spec, BoxObservation)
            own = slice(flat.shape[0])
            low[own], high[own] = np.minimum(low[own], flat.spec.low), np.maximum(high[own], flat.spec.high)
        self.observation = spaces.Box(low, high)
        self.action = actions[0] if same_actions else spaces.Discrete(max(int(space.n) for space in actions))
        self._choices = None if same_actions else [int(space.n) for space in actions]

    @property
    def masked(self) -> bool:
        """Whether agents have different numbers of actions."""
        return self._choices is not None

    def pad(self, seat: int, obs: Any) -> NDArray[np.float32]:
        """Return an agent's observation in the common space."""
        flat = np.asarray(self._flat[seat].flatten(obs), np.float32)
        if flat.shape != self._flat[seat].shape:
            raise ValueError(f"it has shape {flat.shape}: its space has {self._flat[seat].shape}")
        padded = np.zeros(self.observation.shape, np.float32)
        padded[: len(flat)] = flat
        padded[self._size + self._roles[seat]] = 1.0
        return padded

    def mask(self, seat: int, mask: Any) -> Any:
        """Return an agent's mask over the common actions."""
        if self._choices is None:
            return mask
        allowed = np.zeros(int(self.action.n), np.int8)
        allowed[: self._choices[seat]] = 1 if mask is None else np.ravel(np.asarray(mask)) != 0
        return allowed
