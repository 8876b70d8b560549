"""Observations and actions in the env's own form: a policy takes what the env gives, and returns what it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.envs.scaling import ActionScale
    from hotloop.envs.spec import EnvSpec


class OwnSpaces:
    """Conversion between an env's own spaces and those of its policy; the identity where they are the same."""

    def __init__(self, spec: EnvSpec) -> None:
        # Imported here: native envs have no own spaces, and need no Gymnasium.
        self._observation: Any = None
        self._action: Any = None
        self.scale: ActionScale | None = None
        """Scaling of continuous actions, if there is one."""
        if spec.own_observation is not None:
            from hotloop.envs.flatten import FlatObservation
            from hotloop.envs.space_json import space_from_json

            self._observation = FlatObservation(space_from_json(json.loads(spec.own_observation)))
        if spec.own_action is not None:
            from hotloop.envs.flatten import FlatAction
            from hotloop.envs.scaling import ActionScale
            from hotloop.envs.space_json import space_from_json

            self._action = FlatAction(space_from_json(json.loads(spec.own_action)))
            own = self._action.spec
            if own.low and own != spec.action:
                self.scale = ActionScale(own)

    def is_dict_with(self, keys: set[str]) -> bool:
        """Return whether the env's observations are dicts with exactly these keys."""
        parts = None if self._observation is None else getattr(self._observation.space, "spaces", None)
        return isinstance(parts, Mapping) and set(parts) == keys

    def flatten(self, obs: Any) -> tuple[NDArray[Any], bool] | None:
        """Return a batch for the policy, and whether it is one observation; `None` if obs is not in the env's form."""
        flat = self._observation
        if flat is None:
            return None
        from gymnasium import spaces

        nested = isinstance(flat.space, spaces.Dict | spaces.Tuple)
        if not nested:
            return (np.asarray(flat.flatten(obs))[None], True) if np.shape(obs) == flat.space.shape else None
        if isinstance(obs, list) and obs and isinstance(obs[0], Mapping | tuple):
            return np.stack([flat.flatten(each) for each in obs]), False
        if not isinstance(obs, Mapping if isinstance(flat.space, spaces.Dict) else tuple):
            return None
        count = flat.batch_size(obs)
        return (flat.flatten(obs)[None], True) if count is None else (flat.flatten_batch(obs, count), False)

    def actions(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return a batch of the policy's actions as `step` of a vector env takes them."""
        if self.scale is not None:
            return self.scale(actions)
        if self._action is not None and self._action.single:
            actions = actions + self._action.start
        return actions

    def action(self, action: NDArray[Any]) -> Any:
        """Return one of the policy's actions in the env's own form."""
        if self._action is None:
            return int(action) if action.ndim == 0 else action
        return self._action.unflatten(action if self.scale is None else self.scale(action))
