"""PPO's loss (Schulman et al. 2017), and the log-probabilities and entropies it uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

PARTS: Final = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
_MASKED: Final = -1e30


class Batch(NamedTuple):
    """Inputs of the loss: steps along the first axis, or time and then sequences for recurrent policies.

    Steps without weight are ignored, and hold zeros.
    """

    obs: Tensor
    """Network inputs."""
    action: Tensor
    mask: Tensor | None
    """Action masks."""
    log_prob: Tensor
    """Log-probability of the action when it was taken."""
    value: Tensor
    """Value when the action was taken."""
    advantage: Tensor
    """Advantage, normalised if configured."""
    target: Tensor
    """Value target."""
    weight: Tensor

    def mean(self, x: Tensor) -> Tensor:
        """Return the weighted mean over steps."""
        return (x * self.weight).sum() / self.weight.sum()


class Outputs(NamedTuple):
    """The current policy's outputs for a batch."""

    outputs: Tensor
    """Logits of all choices, then means, then log standard deviations."""
    value: Tensor
    log_prob: Tensor
    """Log-probability of the batch's actions."""
    entropy: Tensor


Term = Callable[[Batch, Outputs], Tensor]
"""A further loss term: a scalar that is added to the loss."""


def probabilities(
    outputs: Tensor, action: Tensor, mask: Tensor | None, choices: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of actions, and entropies. Outputs beyond the logits of `choices` are continuous."""
    logits = sum(choices)
    if not choices:
        return _gaussian(outputs, action)
    if logits < outputs.shape[-1]:
        sets = len(choices)
        own = probabilities(outputs[..., :logits], action[..., :sets].long(), mask, choices)
        other = _gaussian(outputs[..., logits:], action[..., sets:])
        return own[0] + other[0], own[1] + other[1]
    if mask is not None:
        outputs = outputs.where(mask, _MASKED)
    if len(choices) == 1:
        return _categorical(outputs, action.reshape(*outputs.shape[:-1], 1))
    parts = zip(outputs.split(list(choices), -1), action.split(1, -1), strict=True)
    log_probs, entropies = zip(*(_categorical(*part) for part in parts), strict=True)
    return torch.stack(log_probs).sum(0), torch.stack(entropies).sum(0)


def _gaussian(outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    mean, log_std = outputs.chunk(2, -1)
    offset = (action - mean) * torch.exp(-log_std)
    log_prob = -0.5 * offset.square() - log_std - 0.5 * math.log(2 * math.pi)
    entropy = log_std + 0.5 * math.log(2 * math.pi * math.e)
    return log_prob.sum(-1), entropy.sum(-1)


def _categorical(logits: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
    log_probs = logits.log_softmax(-1)
    return log_probs.gather(-1, taken).squeeze(-1), -(log_probs.exp() * log_probs).sum(-1)


def ppo_loss(batch: Batch, now: Outputs, settings: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return the loss, and its parts in the order of `PARTS`, as weighted means over the batch."""
    clip = settings["clip"]
    log_ratio = now.log_prob - batch.log_prob
    ratio = log_ratio.exp()
    gain = torch.minimum(ratio * batch.advantage, ratio.clamp(1 - clip, 1 + clip) * batch.advantage)
    error = 0.5 * (now.value - batch.target).square()
    if settings["value_clip"] is not None:
        limit = settings["value_clip"]
        moved = now.value - batch.value
        held = 0.5 * (batch.value + moved.clamp(-limit, limit) - batch.target).square()
        # Inside the limit both are the same value, though they may be rounded differently.
        error = torch.where((moved.abs() > limit) & (error < held), held, error)
    with torch.no_grad():
        kl = (ratio - 1) - log_ratio
        clipped = ((ratio - 1).abs() > clip).to(ratio.dtype)
    share = batch.weight / batch.weight.sum()
    parts = (torch.stack((-gain, error, now.entropy, kl, clipped)) * share).flatten(1).sum(1)
    loss = parts[0] + settings["value_weight"] * parts[1] - settings["entropy"] * parts[2]
    return loss, parts.detach()
