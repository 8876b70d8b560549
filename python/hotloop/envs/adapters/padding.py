"""Agents with different spaces in one env: padded to common ones, so that one policy can play all of them.

Observations are filled up with zeros, and end with the agent's role, one-hot: agents with equal spaces share a role.
A common action has as many choices and real numbers as the largest of each: choices that an agent does not have are
masked, real numbers that it does not have are ignored. Real numbers are scaled to each agent's own bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from hotloop.envs.flatten import FlatAction, FlatObservation
from hotloop.envs.scaling import ActionScale, unit_bounds
from hotloop.envs.spec import BoxObservation, ContinuousAction
from hotloop.errors import SpaceError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Padding:
    """Common spaces of agents whose own spaces differ."""

    def __init__(self, agents: list[Any], observations: list[Any], actions: list[Any]) -> None:
        self._flat = [FlatObservation(space) for space in observations]
        self._actions = [FlatAction(space) for space in actions]
        for agent, space, flat in zip(agents, observations, self._flat, strict=True):
            if not isinstance(flat.spec, BoxObservation) or len(flat.shape) != 1:
                raise SpaceError(
                    f"the observation space of agent {agent!r} is {space}, that of {agents[0]!r} is {observations[0]}: "
                    "different spaces can be padded only if all of them are vectors"
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
        self._same_actions = all(space == actions[0] for space in actions)
        self.action: spaces.Space[Any] = actions[0] if self._same_actions else self._common_actions()
        spec = FlatAction(self.action).spec
        self._sets = spec.choices
        self.masked = any(own.spec.choices != spec.choices for own in self._actions)
        """Whether agents have different choices."""
        self._scales = [ActionScale(own.spec) if own.spec.low else None for own in self._actions]

    def _common_actions(self) -> spaces.Space[Any]:
        if all(own.single for own in self._actions):
            return spaces.Discrete(max(own.spec.choices[0] for own in self._actions))
        specs = [own.spec for own in self._actions]
        sets = [max(column) for column in _columns([spec.choices for spec in specs])]
        bounds = [unit_bounds(ContinuousAction(spec.low, spec.high)) for spec in specs]
        low = [min(column) for column in _columns([each.low for each in bounds])]
        high = [max(column) for column in _columns([each.high for each in bounds])]
        parts: list[spaces.Space[Any]] = [spaces.MultiDiscrete(sets)] if sets else []
        if low:
            parts.append(spaces.Box(np.array(low, np.float32), np.array(high, np.float32)))
        return parts[0] if len(parts) == 1 else spaces.Tuple(parts)

    def decode(self, seat: int, action: Any) -> Any:
        """Return an agent's action in its own form."""
        own, scale = self._actions[seat], self._scales[seat]
        if self._same_actions or np.ndim(action) == 0:
            return own.unflatten(action)
        if own.single:
            return own.unflatten(action[0])
        spec, first_real = own.spec, len(self._sets)
        flat = np.concatenate([action[: len(spec.choices)], action[first_real : first_real + len(spec.low)]])
        return own.unflatten(flat if scale is None else scale(flat))

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
        if not self.masked:
            return mask
        own = self._actions[seat].spec.choices
        given = np.ones(sum(own), np.bool_) if mask is None else np.ravel(np.asarray(mask)) != 0
        if given.shape != (sum(own),):
            raise ValueError(f"its action mask has {given.size} entries: its action space has {sum(own)}")
        parts = np.split(given, np.cumsum(own)[:-1]) if own else []
        allowed = np.zeros(sum(self._sets), np.int8)
        first = 0
        for i, n in enumerate(self._sets):
            # One choice is left of a set that the agent does not have.
            part = parts[i] if i < len(parts) else np.ones(1, np.bool_)
            allowed[first : first + len(part)] = part
            first += n
        return allowed


def _columns(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    """Return the entries at each place of rows of different lengths."""
    return [[row[i] for row in rows if i < len(row)] for i in range(max(map(len, rows)))]
