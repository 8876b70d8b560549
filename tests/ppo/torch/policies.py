"""Modules and loss terms that tests name in configs."""

from typing import Any

import torch
from torch import Tensor, nn

from hotloop.policies.torch.modules import Spaces
from hotloop.ppo.torch.loss import Batch, Outputs


class Counting(nn.Module):
    """Remembers how many steps it has seen, from a start of its own."""

    def __init__(self, spaces: Spaces, first: float = 3.0) -> None:
        super().__init__()
        self.first = first
        self.policy = nn.Linear(spaces.shape[0] + 1, spaces.outputs)
        self.value = nn.Linear(spaces.shape[0] + 1, 1)

    def initial_memory(self, rows: int) -> Tensor:
        return torch.full((rows, 1), self.first)

    def forward(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = torch.cat((obs, 0.01 * memory), 1)
        return self.policy(x), self.value(x).squeeze(-1), memory + 1


class Forgetful(Counting):
    def forward(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        outputs, value, _ = super().forward(obs, memory)
        return outputs, value, memory[:, :0]


class WrongOutputs(Counting):
    def forward(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        outputs, value, memory = super().forward(obs, memory)
        return outputs[:, :-1], value, memory


class WrongValue(Counting):
    def forward(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        outputs, value, memory = super().forward(obs, memory)
        return outputs, value.unsqueeze(-1), memory


class OneMethod(nn.Module):
    def __init__(self, spaces: Spaces) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, obs: Tensor, memory: Any) -> Any:
        return None


def pull_values(batch: Batch, now: Outputs) -> Tensor:
    """Draws every value towards 7, much harder than the targets do."""
    return 100.0 * batch.mean((now.value - 7.0).square())
