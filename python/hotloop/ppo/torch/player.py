"""A policy at work: observations and memory in; outputs, values and memory out. Learner and frozen opponents act so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotloop.policies.torch.modules import build_module
from hotloop.policies.torch.network import build_network

if TYPE_CHECKING:
    from hotloop.envs.spec import EnvSpec
    from hotloop.ppo.torch.data import Features
    from hotloop.ppo.torch.hardware import Hardware


def build_policy(spec: EnvSpec, policy: Mapping[str, Any], *, seed: int, attempt: int) -> Any:
    """A policy of the built-in layers, or a user's module, with its first weights."""
    build: Any = build_module if "module" in policy else build_network
    return build(spec, policy, seed=seed, attempt=attempt)


class Player:
    """A policy, how it sees, and what it remembers of every row."""

    def __init__(self, policy: Any, features: Features, hardware: Hardware, rows: int, batch: int | None) -> None:
        self.policy = policy
        self.features = features
        self._hardware = hardware
        self._batch = batch
        with torch.no_grad():
            self.memory: Tensor | None = policy.initial_memory(rows)

    def infer(self, obs: Tensor, memory: Tensor | None) -> tuple[NDArray[np.float32], Tensor, Tensor | None]:
        """Outputs as the core takes them, values and memory; called without gradients."""
        self._hardware.use_threads()
        seen = self.features(obs.to(self._hardware.device, non_blocking=True))
        with self._hardware.precision():
            outputs, value, after = self.policy(seen, memory) if self._batch is None else self._in_parts(seen, memory)
        return outputs.float().cpu().numpy(), value.float(), None if after is None else after.float()

    def _in_parts(self, obs: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        assert self._batch is not None
        seen = obs.split(self._batch)
        memories = [None] * len(seen) if memory is None else memory.split(self._batch)
        parts = [self.policy(o, m) for o, m in zip(seen, memories, strict=True)]
        outputs, values, after = zip(*parts, strict=True)
        return torch.cat(outputs), torch.cat(values), None if after[0] is None else torch.cat(after)

    def moved(self, before: Tensor | None, after: Tensor | None, valid: NDArray[np.bool_]) -> Tensor | None:
        """The memory after a step: only rows that decided have moved on."""
        if before is None or after is None or valid.all():
            return after
        return torch.where(torch.from_numpy(valid).to(after.device).unsqueeze(1), after, before)

    def kept(self, memory: Tensor, ended: NDArray[np.bool_]) -> Tensor:
        """The memory of rows whose episode goes on, and a fresh one for the others."""
        if not ended.any():
            return memory
        fresh = self.policy.initial_memory(1)
        return torch.where(torch.from_numpy(ended).to(memory.device).unsqueeze(1), fresh, memory)

    def end_episodes(self, rows: slice, ended: NDArray[np.bool_]) -> None:
        """Empties the memory of those of the rows whose episodes ended."""
        if self.memory is not None:
            self.memory[rows] = self.kept(self.memory[rows], ended)


def decide_together(
    players: list[Player],
    playing: NDArray[np.int32],
    obs: Tensor,
    valid: NDArray[np.bool_],
    memories: list[Tensor | None],
    outputs: int,
) -> tuple[NDArray[np.float32], Tensor]:
    """Outputs and values of rows that several policies play; what each remembers of its own rows is brought up to date.

    An index that no policy has stands for the first one.
    """
    playing = np.where(playing < len(players), playing, 0)
    decided, values = np.zeros((len(playing), outputs), np.float32), torch.zeros(len(playing))
    for index, (player, memory) in enumerate(zip(players, memories, strict=True)):
        rows = np.flatnonzero(playing == index)
        if not rows.size:
            continue
        at = torch.from_numpy(rows)
        before = None if memory is None else memory[at]
        decided[rows], value, after = player.infer(obs[at], before)
        values[at] = value.cpu()
        after = player.moved(before, after, valid[rows])
        if memory is not None and after is not None:
            memory[at] = after
    return decided, values
