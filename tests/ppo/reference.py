"""PPO's loss once more, written plainly in torch and float64, to compare the native learner with."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hotloop import _core
from hotloop.policies.protocol import ActRequest, BatchPolicy

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}
SETTINGS: dict[str, Any] = {
    "epochs": 1,
    "minibatch_size": 64,
    "learning_rate": 1e-3,
    "gamma": 0.97,
    "gae_lambda": 0.9,
    "clip": 0.2,
    "value_clip": None,
    "value_weight": 0.5,
    "entropy": 0.01,
    "max_gradient_norm": 1e9,
    "normalize_advantages": True,
    "target_kl": None,
    "reward_scale": 1.0,
    "iteration": 0,
}


def leaves(learner: _core.PpoLearner) -> dict[str, torch.Tensor]:
    """The learner's weights as leaves of a graph."""
    return {
        name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in learner.arrays().items()
    }


def network(
    weights: dict[str, torch.Tensor], obs: torch.Tensor, prefix: str, head: str, activation: str
) -> torch.Tensor:
    """Dense layers and a head."""
    x = dense(weights, obs, prefix, activation)
    return x @ weights[f"{head}.weight"].T + weights[f"{head}.bias"]


def dense(weights: dict[str, torch.Tensor], obs: torch.Tensor, prefix: str, activation: str) -> torch.Tensor:
    """Dense layers; discrete observations go through a table, whose rows a one-hot input would pick."""
    act = ACTIVATIONS[activation]
    layers = sum(re.fullmatch(rf"{prefix}\.\d+\.bias", name) is not None for name in weights)
    x = obs
    first = 0
    if obs.dtype == torch.int64:
        if f"{prefix}.embedding.weight" in weights:
            x = weights[f"{prefix}.embedding.weight"][obs]
        else:
            x = act(weights[f"{prefix}.0.weight"][obs] + weights[f"{prefix}.0.bias"])
            first = 1
    for i in range(first, layers):
        x = act(x @ weights[f"{prefix}.{i}.weight"].T + weights[f"{prefix}.{i}.bias"])
    return x


def outputs(weights: dict[str, torch.Tensor], obs: torch.Tensor, activation: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits and values."""
    if "heads.weight" in weights:
        both = network(weights, obs, "trunk", "heads", activation)
        return both[:, :-1], both[:, -1]
    preferences = network(weights, obs, "policy", "policy.head", activation)
    return preferences, network(weights, obs, "value", "value.head", activation)[:, 0]


def distribution(
    weights: dict[str, torch.Tensor],
    preferences: torch.Tensor,
    action: torch.Tensor,
    mask: torch.Tensor | None,
    sets: list[int] | None = None,
    continuous: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logarithms of the probabilities of actions, and entropies; hybrid actions have a `continuous` part."""
    if continuous is not None:
        assert sets is not None
        logits, means = preferences[:, : sum(sets)], preferences[:, sum(sets) :]
        discrete = {name: array for name, array in weights.items() if name != "log_std"}
        log_prob, entropy = distribution(discrete, logits, action, mask, sets)
        other_log_prob, other_entropy = distribution(weights, means, continuous, None)
        return log_prob + other_log_prob, entropy + other_entropy
    if "log_std" in weights:
        spread = weights["log_std"]
        log_prob = -0.5 * ((action - preferences) / spread.exp()) ** 2 - spread - 0.5 * math.log(2 * math.pi)
        entropy = (spread + 0.5 * math.log(2 * math.pi * math.e)).sum()
        return log_prob.sum(-1), entropy.expand(len(action))
    if mask is not None:
        preferences = torch.where(mask, preferences, torch.tensor(-1e30, dtype=torch.float64))
    log_prob, entropy = torch.zeros(len(action)), torch.zeros(len(action))
    parts = torch.split(preferences, sets or [preferences.shape[1]], dim=1)
    for part, taken in zip(parts, action.reshape(len(action), -1).T, strict=True):
        log_probs = torch.log_softmax(part, -1)
        log_prob = log_prob + log_probs.gather(-1, taken[:, None])[:, 0]
        entropy = entropy - (log_probs.exp() * log_probs).sum(-1)
    return log_prob, entropy


def loss(
    weights: dict[str, torch.Tensor], rollout: dict[str, NDArray[Any]], activation: str, settings: dict[str, Any]
) -> tuple[torch.Tensor, dict[str, float]]:
    """The loss over all steps that have a weight, and its parts."""
    used = rollout["weight"] > 0
    recurrent = any("memory.0." in name for name in weights)

    def column(name: str) -> torch.Tensor:
        array = rollout[name][: len(used)][used]
        if array.dtype == np.float32:
            array = array.astype(np.float64)
        elif array.dtype == np.int32:
            array = array.astype(np.int64)
        return torch.tensor(array)

    obs = column("obs")
    if obs.dtype != torch.int64:
        scale = settings.get("high", 1) if obs.dtype == torch.uint8 else 1
        obs = obs.reshape(len(obs), -1).double() / scale
    mask = column("mask").bool() if "mask" in rollout else None
    if recurrent:
        from tests.ppo.recurrence import recurrent_outputs

        # Steps without weight take part in what is remembered.
        every = recurrent_outputs(weights, rollout, activation, settings.get("high", 1))
        preferences, value = (part[torch.tensor(used)] for part in every)
    else:
        preferences, value = outputs(weights, obs, activation)
    continuous = column("continuous_action") if "continuous_action" in rollout else None
    log_prob, entropy = distribution(weights, preferences, column("action"), mask, settings.get("sets"), continuous)
    weight = column("weight")

    def mean(x: torch.Tensor) -> torch.Tensor:
        return (x * weight).sum() / weight.sum()

    advantage = column("advantage")
    if settings["normalize_advantages"]:
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
    log_ratio = log_prob - column("log_prob")
    ratio = log_ratio.exp()
    clip = settings["clip"]
    policy_loss = mean(-torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage))
    target, old = column("target"), column("value")
    value_losses = 0.5 * (value - target) ** 2
    if settings["value_clip"] is not None:
        near = old + (value - old).clamp(-settings["value_clip"], settings["value_clip"])
        value_losses = torch.max(value_losses, 0.5 * (near - target) ** 2)
    parts = {
        "policy_loss": policy_loss,
        "value_loss": mean(value_losses),
        "entropy": mean(entropy),
        "kl": mean(ratio - 1 - log_ratio),
        "clip_fraction": mean(((ratio - 1).abs() > clip).double()),
    }
    total = policy_loss + settings["value_weight"] * parts["value_loss"] - settings["entropy"] * parts["entropy"]
    return total, {name: float(part.detach()) for name, part in parts.items()}


def values_of(policy: BatchPolicy, obs: NDArray[Any]) -> NDArray[np.float32]:
    """The values of observations at the start of an episode."""
    values: NDArray[np.float32] = policy.act(ActRequest(obs, deterministic=True))[2]
    return values
