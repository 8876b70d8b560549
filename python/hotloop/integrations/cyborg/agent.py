"""A trained policy as an agent of the challenge's evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hotloop.envs.cage2.memory import EpisodeMemory
from hotloop.envs.cage2.network import BITS, FULL_ACTIONS
from hotloop.loading import load


class ChallengeAgent:
    """An agent for the real simulator, or any env with its 52 observation bits and 145 actions.

    Observations and actions are converted to the features and the action space that the policy was trained with. Call
    `end_episode` between episodes, as the challenge's evaluation does.

    Args:
        path: A run or a checkpoint of `cage2`.
    """

    def __init__(self, path: str | Path) -> None:
        self._agent = load(path)
        if self._agent.env != "cage2":
            raise ValueError(
                f"{path} is a policy for {self._agent.env}, which has another action space: expected cage2"
            )
        options = self._agent.options
        self._compact = options.get("actions") == "compact"
        self._remembers = options.get("features") == "memory"
        self._green = bool(options.get("green", False))
        self._memory = EpisodeMemory(green=self._green)

    def get_action(self, observation: ArrayLike, action_space: object = FULL_ACTIONS) -> int:
        """Return the action, 0 to 144, for the 52 bits of the current observation."""
        choices = getattr(action_space, "n", action_space)
        if isinstance(choices, int | np.integer) and choices != FULL_ACTIONS:
            raise ValueError(f"action_space has {choices} actions: expected the challenge's {FULL_ACTIONS}")
        bits = np.asarray(observation, np.float32)
        if bits.shape != (BITS,):
            raise ValueError(f"observation has shape {bits.shape}: expected the challenge's {BITS} bits")
        if not np.isin(bits, (0.0, 1.0)).all():
            raise ValueError(
                f"observation holds {bits[~np.isin(bits, (0.0, 1.0))][0]:g}: expected {BITS} bits, each 0 or 1"
            )
        memory = self._memory
        memory.observe(bits)
        obs = memory.features(bits) if self._remembers else bits
        action: Any = self._agent.act(obs, mask=memory.mask() if self._compact else None)
        full = memory.to_full(action) if self._compact else int(action)
        memory.act(full)
        return full

    def end_episode(self) -> None:
        """Clear the state of the episode."""
        self._memory = EpisodeMemory(green=self._green)

    def set_initial_values(self, action_space: object, observation: ArrayLike) -> None:
        """Start an episode; the simulator calls this."""
        self.end_episode()
