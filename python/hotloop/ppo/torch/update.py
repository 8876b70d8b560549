"""The update, as the paper has it: for each epoch, for each minibatch, a step along the gradient of the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hotloop.ppo.torch.data import Data, Memories, parts
from hotloop.ppo.torch.loss import PARTS, Batch, Outputs, Term, ppo_loss

if TYPE_CHECKING:
    from hotloop.ppo.torch.parameters import Parameters

Evaluate = Callable[[Batch, Memories | None], Outputs]
"""What the policy makes of a batch."""


class Update:
    """PPO's gradient steps; everything that is told is summed up on the device and read once."""

    def __init__(self, evaluate: Evaluate, parameters: Parameters, terms: Sequence[Term], accumulate: int) -> None:
        self._evaluate = evaluate
        self._parameters = parameters
        self._terms = tuple(terms)
        self._accumulate = accumulate

    def run(
        self, data: Data, settings: Mapping[str, Any], size: int, order: Callable[[int, int], Tensor]
    ) -> dict[str, Any]:
        """All epochs of an iteration; `size` counts steps or sequences, `order(epoch, n)` shuffles them."""
        sums, norms, dropped = torch.zeros(6), torch.zeros(()), torch.zeros(())
        sums, norms, dropped = (x.to(self._parameters.flat.device) for x in (sums, norms, dropped))
        target_kl = settings["target_kl"]
        epochs = gradient_steps = 0
        for epoch in range(settings["epochs"]):
            before = sums.clone()
            for batch, memories in data.minibatches(size, lambda n, epoch=epoch: order(epoch, n)):  # type: ignore[misc]
                sums += self._descend(batch, memories, settings)
                norm, failed = self._parameters.step(settings)
                norms += norm
                dropped += failed
                gradient_steps += 1
            epochs += 1
            if target_kl is not None and bool((sums - before)[3] > target_kl * (sums - before)[5]):
                break
        told = (sums[:5] / sums[5].clamp(min=1e-30)).tolist()
        left_out = int(dropped)
        return {
            **dict(zip(PARTS, told, strict=True)),
            "gradient_norm": float(norms) / max(1, gradient_steps - left_out),
            "epochs": epochs,
            "gradient_steps": gradient_steps - left_out,
            "dropped": left_out,
        }

    def gradient(self, data: Data, settings: Mapping[str, Any]) -> dict[str, float]:
        """Leaves the gradient of the whole rollout as one batch, and gives the parts of the loss."""
        sums = self._descend(*data.whole(), settings)
        return dict(zip(PARTS, (sums[:5] / sums[5]).tolist(), strict=True))

    def _descend(self, batch: Batch, memories: Memories | None, settings: Mapping[str, Any]) -> Tensor:
        """Fills the gradient; gives the parts of the loss times the weights' sum, and that sum."""
        parameters = self._parameters
        parameters.gradient.zero_()
        if self._accumulate == 1:
            loss, told = self._loss(batch, memories, settings)
            parameters.scaled(loss).backward()
            weight = batch.weight.sum()
            return torch.cat((told * weight, weight[None]))
        total, sums = batch.weight.sum(), torch.zeros(6, device=batch.weight.device)
        for part in parts(batch, memories, self._accumulate):
            loss, told = self._loss(*part, settings)
            weight = part[0].weight.sum()
            parameters.scaled(loss * (weight / total)).backward()
            sums += torch.cat((told * weight, weight[None]))
        return sums

    def _loss(self, batch: Batch, memories: Memories | None, settings: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        now = self._evaluate(batch, memories)
        loss, told = ppo_loss(batch, now, settings)
        for term in self._terms:
            loss = loss + term(batch, now)
        return loss, told
