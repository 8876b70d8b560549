"""Reference outputs of recurrent policies, in plain torch and float64, step by step."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.ppo.reference import dense

Weights = dict[str, torch.Tensor]
State = tuple[torch.Tensor, torch.Tensor]


def lstm(x: torch.Tensor, state: State, weights: Weights, name: str) -> State:
    """One step of torch's LSTM cell, whose two biases are one here."""
    h, c = state
    sums = x @ weights[f"{name}.input.weight"].T + h @ weights[f"{name}.hidden.weight"].T + weights[f"{name}.bias"]
    i, f, g, o = sums.chunk(4, dim=1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru(x: torch.Tensor, state: State, weights: Weights, name: str) -> State:
    """One step of torch's GRU cell, whose two biases are one here but for the candidate's."""
    h, c = state
    seen = (x @ weights[f"{name}.input.weight"].T + weights[f"{name}.bias"]).chunk(3, dim=1)
    kept = (h @ weights[f"{name}.hidden.weight"].T).chunk(3, dim=1)
    r, z = torch.sigmoid(seen[0] + kept[0]), torch.sigmoid(seen[1] + kept[1])
    n = torch.tanh(seen[2] + r * (kept[2] + weights[f"{name}.hidden.bias"]))
    return (1 - z) * n + z * h, c


def recurrent_outputs(
    weights: Weights, rollout: dict[str, NDArray[Any]], activation: str, high: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Preferences `[steps, rows, n]` and values `[steps, rows]`; sequences begin with the stored memory."""
    if "heads.weight" in weights:
        both = one_network(weights, rollout, activation, ("trunk", "memory", "heads"), high, part=(0, 1))
        return both[..., :-1], both[..., -1]
    preferences = one_network(weights, rollout, activation, ("policy", "policy.memory", "policy.head"), high, (0, 2))
    return preferences, one_network(
        weights, rollout, activation, ("value", "value.memory", "value.head"), high, (1, 2)
    )[..., 0]


def one_network(
    weights: Weights,
    rollout: dict[str, NDArray[Any]],
    activation: str,
    names: tuple[str, str, str],
    high: int,
    part: tuple[int, int],
) -> torch.Tensor:
    """Return the outputs of one network at every step; `part` is its part of the recurrent state."""
    trunk, prefix, head = names
    steps, rows = rollout["reward"].shape
    layers = sum(name.startswith(f"{prefix}.") and name.endswith("input.weight") for name in weights)
    size = weights[f"{prefix}.0.hidden.weight"].shape[1]
    is_lstm = f"{prefix}.0.hidden.bias" not in weights
    begun = torch.tensor(rollout["memory"].astype(np.float64)).chunk(part[1], dim=-1)[part[0]]
    length = steps // len(begun)
    ended = torch.tensor(rollout["terminated"] | rollout["truncated"])
    states: list[State] = []
    out = []
    for step in range(steps):
        if step % length == 0:
            numbers = begun[step // length].reshape(rows, layers, 2 if is_lstm else 1, size)
            states = [(numbers[:, k, 0], numbers[:, k, -1]) for k in range(layers)]
        obs = torch.tensor(rollout["obs"][step])
        x = dense(
            weights, obs if obs.dtype == torch.int64 else obs.reshape(rows, -1).double() / high, trunk, activation
        )
        decides = torch.tensor(rollout["valid"][step])[:, None]
        for k, state in enumerate(states):
            after = (lstm if is_lstm else gru)(x, state, weights, f"{prefix}.{k}")
            kept = [torch.where(decides, new, old) for new, old in zip(after, state, strict=True)]
            states[k] = (
                torch.where(ended[step][:, None], 0.0, kept[0]),
                torch.where(ended[step][:, None], 0.0, kept[1]),
            )
            x = after[0]
        out.append(x @ weights[f"{head}.weight"].T + weights[f"{head}.bias"])
    return torch.stack(out)
