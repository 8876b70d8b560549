"""The PPO update: for each epoch, for each minibatch, a gradient step on the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hotloop.ppo.torch.loss import PARTS, Batch, Outputs, Term, ppo_loss
from hotloop.ppo.torch.minibatches import RolloutData, Sequences, split_batch

if TYPE_CHECKING:
    from hotloop.ppo.torch.optimizer import FlatAdam

Evaluate = Callable[[Batch, Sequences | None], Outputs]
"""The policy's outputs for a batch."""


class Update:
    """PPO's gradient steps; the report is summed up on the device and read once."""

    def __init__(self, evaluate: Evaluate, optimizer: FlatAdam, terms: Sequence[Term], accumulate: int) -> None:
        self._evaluate = evaluate
        self._optimizer = optimizer
        self._terms = tuple(terms)
        self._accumulate = accumulate

    def run(
        self, data: RolloutData, settings: Mapping[str, Any], size: int, order: Callable[[int, int], Tensor]
    ) -> dict[str, Any]:
        """Run all epochs of an iteration; `size` counts steps or sequences, `order(epoch, n)` permutes them."""
        sums, norms, dropped = torch.zeros(6), torch.zeros(()), torch.zeros(())
        sums, norms, dropped = (x.to(self._optimizer.flat.device) for x in (sums, norms, dropped))
        target_kl = settings["target_kl"]
        epochs = gradient_steps = 0
        for epoch in range(settings["epochs"]):
            before = sums.clone()
            for batch, sequences in data.minibatches(size, lambda n, epoch=epoch: order(epoch, n)):  # type: ignore[misc]
                sums += self._backward(batch, sequences, settings)
                norm, failed = self._optimizer.step(settings)
                norms += norm
                dropped += failed
                gradient_steps += 1
            epochs += 1
            if target_kl is not None and bool((sums - before)[3] > target_kl * (sums - before)[5]):
                break
        means = (sums[:5] / sums[5].clamp(min=1e-30)).tolist()
        dropped_steps = int(dropped)
        return {
            **dict(zip(PARTS, means, strict=True)),
            "gradient_norm": float(norms) / max(1, gradient_steps - dropped_steps),
            "epochs": epochs,
            "gradient_steps": gradient_steps - dropped_steps,
            "dropped": dropped_steps,
        }

    def gradient(self, data: RolloutData, settings: Mapping[str, Any]) -> dict[str, float]:
        """Compute the gradient of the whole rollout as one batch; return the parts of the loss."""
        sums = self._backward(*data.whole(), settings)
        return dict(zip(PARTS, (sums[:5] / sums[5]).tolist(), strict=True))

    def _backward(self, batch: Batch, sequences: Sequences | None, settings: Mapping[str, Any]) -> Tensor:
        """Compute the gradient; return the parts of the loss times the sum of weights, and that sum."""
        optimizer = self._optimizer
        optimizer.gradient.zero_()
        if self._accumulate == 1:
            loss, parts = self._loss(batch, sequences, settings)
            optimizer.scaled(loss).backward()
            weight = batch.weight.sum()
            return torch.cat((parts * weight, weight[None]))
        total, sums = batch.weight.sum(), torch.zeros(6, device=batch.weight.device)
        for part in split_batch(batch, sequences, self._accumulate):
            loss, parts = self._loss(*part, settings)
            weight = part[0].weight.sum()
            optimizer.scaled(loss * (weight / total)).backward()
            sums += torch.cat((parts * weight, weight[None]))
        return sums

    def _loss(self, batch: Batch, sequences: Sequences | None, settings: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        now = self._evaluate(batch, sequences)
        loss, parts = ppo_loss(batch, now, settings)
        for term in self._terms:
            loss = loss + term(batch, now)
        return loss, parts
