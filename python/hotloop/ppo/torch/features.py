"""Preprocessing of observations for torch policies, equal to the native learner's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotloop.envs.spec import BytesObservation, Observation


class Features:
    """Scaling and normalisation of observations."""

    def __init__(self, observation: Observation, device: torch.device) -> None:
        self._device = device
        self._states = observation.states
        self._per_byte = 1.0 / max(1, observation.high) if isinstance(observation, BytesObservation) else None
        self._shape = observation.shape
        self._mean: Tensor | None = None
        self._scale: Tensor | None = None

    def set_statistics(self, statistics: Mapping[str, NDArray[np.float64]]) -> None:
        """Normalise with these statistics from now on; without any, observations stay as they are."""
        count = statistics.get("observations.count", np.zeros(1))[0]
        if count == 0:
            self._mean = self._scale = None
            return
        variance = statistics["observations.m2"] / count if count >= 2 else np.ones(1)
        scale = np.broadcast_to(1.0 / np.sqrt(variance + 1e-8), statistics["observations.mean"].shape)
        self._mean, self._scale = (
            torch.from_numpy(np.array(x, np.float32)).reshape(self._shape).to(self._device)
            for x in (statistics["observations.mean"], scale)
        )

    def __call__(self, obs: Tensor) -> Tensor:
        """Return network inputs, always in new memory: kernels then see the same alignment every time."""
        if self._states:
            return obs.clamp(0, self._states - 1)
        x = obs.clone() if self._per_byte is None else obs.float() * self._per_byte
        if self._mean is not None and self._scale is not None:
            x = ((x - self._mean) * self._scale).clamp_(-10.0, 10.0)
        return x
