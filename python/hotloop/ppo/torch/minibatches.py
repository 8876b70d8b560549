"""Minibatches of a rollout on the device: of steps, or of whole sequences for recurrent policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotloop.ppo.torch.features import Features
from hotloop.ppo.torch.loss import Batch

Order = Callable[[int], Tensor]
"""A random permutation of so many items."""


class Sequences(NamedTuple):
    """Recurrent state of a batch of sequences."""

    start: Tensor
    """State at the first step."""
    keeps: Tensor
    """0 where an episode ended in the step before, so that the state is reset; else 1."""
    moves: Tensor | None
    """Whether the state advances; `None`: at every step."""


class SequenceStarts(NamedTuple):
    """Sequences of a rollout: their length, and the recurrent state at their first steps."""

    length: int
    starts: Tensor
    """`[sequences per row, rows, state]`"""


class RolloutData:
    """The steps of a rollout that have a loss weight."""

    def __init__(
        self,
        rollout: Mapping[str, NDArray[Any]],
        features: Features,
        device: torch.device,
        *,
        normalize: bool,
        recurrent: SequenceStarts | None,
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
            # Steps without weight may hold anything, and must not reach the loss.
            columns = columns.where(used, 0)
        if normalize and self.count:
            mean, scale = _scale(rollout)
            columns[2] = ((columns[2] - mean) * scale).where(used, 0)
        self._columns = torch.cat((columns, weight[None]))
        self._obs = load("obs")
        self._action = load("action")
        if "continuous_action" in rollout:
            # Choices, then real numbers, as in the actions of runners.
            self._action = torch.cat((self._action.float(), load("continuous_action")), -1)
        elif self._action.dtype == torch.int32:
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
        """Number of steps or sequences to learn from."""

    def _arranged(self, array: Tensor) -> Tensor:
        """Arrange steps along one axis; or time within a sequence, then sequences."""
        if self._recurrent is None:
            return array.flatten(0, 1)
        sequences: Tensor = array.unflatten(0, (-1, self._recurrent.length)).transpose(0, 1)
        return sequences.flatten(1, 2)

    def whole(self) -> tuple[Batch, Sequences | None]:
        """Return all steps as one batch, in order."""
        return next(self.minibatches(max(1, self.units), None))

    def minibatches(self, size: int, order: Order | None) -> Iterator[tuple[Batch, Sequences | None]]:
        """Yield batches of `size` steps or sequences, permuted by `order` if it is given."""
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
                yield batch, Sequences(self._starts[rows], self._keeps.index_select(1, rows), moves)


def split_batch(batch: Batch, sequences: Sequences | None, count: int) -> Iterator[tuple[Batch, Sequences | None]]:
    """Split a minibatch into up to `count` parts, by steps or by sequences."""
    axis = 0 if sequences is None else 1

    def cut(tensor: Tensor | None, axis: int) -> tuple[Tensor | None, ...]:
        return (None,) * count if tensor is None else tensor.chunk(count, axis)

    batches = zip(*(cut(tensor, axis) for tensor in batch), strict=False)
    if sequences is None:
        yield from ((Batch(*part), None) for part in batches)
        return
    starts = zip(cut(sequences.start, 0), cut(sequences.keeps, 1), cut(sequences.moves, 1), strict=False)
    for part, starts_part in zip(batches, starts, strict=True):
        yield Batch(*part), Sequences(*starts_part)  # type: ignore[arg-type]


def _scale(rollout: Mapping[str, NDArray[Any]]) -> tuple[float, float]:
    """Return mean and inverse standard deviation of the advantages that have a weight, in double precision."""
    exact = rollout["advantage"][rollout["weight"] > 0].astype(np.float64)
    mean = exact.sum() / exact.size
    variance = max(0.0, np.square(exact).sum() / exact.size - mean * mean)
    return float(mean), float(1 / (np.sqrt(variance) + 1e-8))
