"""A rollout on the device, cut into minibatches: of steps, or of whole sequences for policies with memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotloop.envs.spec import BytesObservation, Observation
from hotloop.ppo.torch.loss import Batch

Order = Callable[[int], Tensor]
"""A random order of so many things."""


class Features:
    """From observations as envs give them to what networks are fed, as the native learner does it."""

    def __init__(self, observation: Observation, device: torch.device) -> None:
        self._device = device
        self._states = observation.states
        self._per_byte = 1.0 / max(1, observation.high) if isinstance(observation, BytesObservation) else None
        self._shape = observation.shape
        self._mean: Tensor | None = None
        self._scale: Tensor | None = None

    def set_statistics(self, statistics: Mapping[str, NDArray[np.float64]]) -> None:
        """Normalises with these from now on; nothing changes before there are any."""
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
        """Always new memory, whatever comes in: kernels see the same alignment every time."""
        if self._states:
            return obs.clamp(0, self._states - 1)
        x = obs.clone() if self._per_byte is None else obs.float() * self._per_byte
        if self._mean is not None and self._scale is not None:
            x = ((x - self._mean) * self._scale).clamp_(-10.0, 10.0)
        return x


class Memories(NamedTuple):
    """What the sequences of a batch begin with, where memory is kept from the step before, and where it moves."""

    start: Tensor
    keeps: Tensor
    moves: Tensor | None


class Recurrent(NamedTuple):
    """What the sequences of a rollout begin with, and how long they are."""

    length: int
    starts: Tensor
    """`[sequences of a row, rows, memory]`"""


class Data:
    """The steps of a rollout that have a weight."""

    def __init__(
        self,
        rollout: Mapping[str, NDArray[Any]],
        features: Features,
        device: torch.device,
        *,
        normalize: bool,
        recurrent: Recurrent | None,
    ) -> None:
        self._features = features
        horizon = len(rollout["reward"])
        self._recurrent = recurrent

        def load(name: str) -> Tensor:
            return self._arranged(torch.from_numpy(rollout[name][:horizon]).to(device, non_blocking=True))

        weight = load("weight")
        used = weight > 0
        self.count = int(np.count_nonzero(rollout["weight"] > 0))
        columns = torch.stack([load(name) for name in ("log_prob", "value", "advantage", "target")])
        if self.count < weight.numel():
            # What has no weight must leave no trace, whatever it holds.
            columns = columns.where(used, 0)
        if normalize and self.count:
            mean, scale = _scale(rollout)
            columns[2] = ((columns[2] - mean) * scale).where(used, 0)
        self._columns = torch.cat((columns, weight[None]))
        self._obs = load("obs")
        self._action = load("action")
        if self._action.dtype == torch.int32:
            self._action = self._action.long()
        self._mask = load("mask") if "mask" in rollout else None
        if recurrent is None:
            self._eligible = None if self.count == weight.numel() else used.nonzero().squeeze(1)
            self._keeps = None
        else:
            ended = load("terminated") | load("truncated")
            self._keeps = torch.cat((torch.ones_like(weight[:1]), (~ended[:-1]).to(weight.dtype)))
            self._moves = None if rollout["valid"][:horizon].all() else load("valid")
            self._starts = recurrent.starts.flatten(0, 1)
            self._eligible = used.any(0).nonzero().squeeze(1)
        self._axis = 0 if recurrent is None else 1
        self.units = weight.shape[-1] if self._eligible is None else len(self._eligible)
        """How many steps or sequences there are to learn from."""

    def _arranged(self, array: Tensor) -> Tensor:
        """Steps along one axis; or time within a sequence, then sequences."""
        if self._recurrent is None:
            return array.flatten(0, 1)
        sequences: Tensor = array.unflatten(0, (-1, self._recurrent.length)).transpose(0, 1)
        return sequences.flatten(1, 2)

    def whole(self) -> tuple[Batch, Memories | None]:
        """All of it as one batch, in order."""
        return next(self.minibatches(max(1, self.units), None))

    def minibatches(self, size: int, order: Order | None) -> Iterator[tuple[Batch, Memories | None]]:
        """Batches of so many steps or sequences, in an order or as they come."""
        where = None if order is None else order(self.units).to(self._columns.device)
        if self._eligible is not None:
            where = self._eligible if where is None else self._eligible[where]
        if where is None:
            where = torch.arange(self.units, device=self._columns.device)
        axis = self._axis
        columns, action = self._columns.index_select(axis + 1, where), self._action.index_select(axis, where)
        mask = None if self._mask is None else self._mask.index_select(axis, where)
        for first in range(0, self.units, size):
            count = min(size, self.units - first)
            rows = where[first : first + count]
            obs = self._obs.index_select(axis, rows)
            log_prob, value, advantage, target, weight = columns.narrow(axis + 1, first, count)
            batch = Batch(
                obs=self._features(obs),
                action=action.narrow(axis, first, count),
                mask=None if mask is None else mask.narrow(axis, first, count),
                log_prob=log_prob,
                value=value,
                advantage=advantage,
                target=target,
                weight=weight,
            )
            if self._keeps is None:
                yield batch, None
            else:
                moves = None if self._moves is None else self._moves.index_select(1, rows)
                yield batch, Memories(self._starts[rows], self._keeps.index_select(1, rows), moves)


def parts(batch: Batch, memories: Memories | None, count: int) -> Iterator[tuple[Batch, Memories | None]]:
    """A minibatch cut into up to `count` parts, by steps or by sequences."""
    axis = 0 if memories is None else 1

    def cut(tensor: Tensor | None, axis: int) -> tuple[Tensor | None, ...]:
        return (None,) * count if tensor is None else tensor.chunk(count, axis)

    batches = zip(*(cut(tensor, axis) for tensor in batch), strict=False)
    if memories is None:
        yield from ((Batch(*part), None) for part in batches)
        return
    starts = zip(cut(memories.start, 0), cut(memories.keeps, 1), cut(memories.moves, 1), strict=False)
    for part, remembered in zip(batches, starts, strict=True):
        yield Batch(*part), Memories(*remembered)  # type: ignore[arg-type]


def _scale(rollout: Mapping[str, NDArray[Any]]) -> tuple[float, float]:
    """Mean and one over the deviation of the advantages that count, in double precision."""
    exact = rollout["advantage"][rollout["weight"] > 0].astype(np.float64)
    mean = exact.sum() / exact.size
    variance = max(0.0, np.square(exact).sum() / exact.size - mean * mean)
    return float(mean), float(1 / (np.sqrt(variance) + 1e-8))
