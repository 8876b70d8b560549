"""A torch policy acting on rows: observations and recurrent state in; outputs, values and the next state out.

The learner and its frozen opponents share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotloop.policies.spec import ModuleSpec, PolicySpec
from hotloop.policies.torch.modules import build_module
from hotloop.policies.torch.network import build_network

if TYPE_CHECKING:
    from hotloop.envs.spec import EnvSpec
    from hotloop.ppo.torch.features import Features
    from hotloop.ppo.torch.hardware import Hardware


def build_policy(spec: EnvSpec, policy: PolicySpec, *, seed: int, attempt: int) -> Any:
    """Build a policy of the built-in layers, or a user's module, with initial weights."""
    if isinstance(policy, ModuleSpec):
        return build_module(spec, policy, seed=seed, attempt=attempt)
    return build_network(spec, policy, seed=seed, attempt=attempt)


class ActingPolicy:
    """A policy, the preprocessing of its observations, and its recurrent state of every row."""

    def __init__(self, policy: Any, features: Features, hardware: Hardware, rows: int, batch: int | None) -> None:
        self.policy = policy
        self.features = features
        self._hardware = hardware
        self._batch = batch
        with torch.no_grad():
            self.state: Tensor | None = policy.initial_memory(rows)

    def infer(self, obs: Tensor, state: Tensor | None) -> tuple[NDArray[np.float32], Tensor, Tensor | None]:
        """Return outputs as the core takes them, values and the next state; call it without gradients."""
        self._hardware.use_threads()
        inputs = self.features(obs.to(self._hardware.device, non_blocking=True))
        with self._hardware.precision():
            outputs, value, after = (
                self.policy(inputs, state) if self._batch is None else self._in_batches(inputs, state, self._batch)
            )
        return outputs.float().cpu().numpy(), value.float(), None if after is None else after.float()

    def _in_batches(self, inputs: Tensor, state: Tensor | None, size: int) -> tuple[Tensor, Tensor, Tensor | None]:
        batches = inputs.split(size)
        states = [None] * len(batches) if state is None else state.split(size)
        results = [self.policy(o, s) for o, s in zip(batches, states, strict=True)]
        outputs, values, after = zip(*results, strict=True)
        return torch.cat(outputs), torch.cat(values), None if after[0] is None else torch.cat(after)

    def act(self, obs: Tensor, rows: NDArray[np.int64], valid: NDArray[np.bool_]) -> tuple[NDArray[np.float32], Tensor]:
        """Return outputs and values of these rows; the state of those that decide advances."""
        if self.state is None:
            outputs, value, _ = self.infer(obs, None)
            return outputs, value
        at = torch.from_numpy(rows)
        before = self.state[at]
        outputs, value, after = self.infer(obs, before)
        assert after is not None
        if not valid.all():
            after = torch.where(torch.from_numpy(valid).to(after.device).unsqueeze(1), after, before)
        self.state[at] = after
        return outputs, value

    def reset(self, rows: NDArray[np.int64]) -> None:
        """Reset the state of these rows."""
        if self.state is not None and rows.size:
            self.state[torch.from_numpy(rows)] = self.policy.initial_memory(1)


class Finals(NamedTuple):
    """Rows that were truncated, with the recurrent state that their final observations are valued with."""

    slots: NDArray[np.int64]
    rows: NDArray[np.int64]
    state: Tensor | None
