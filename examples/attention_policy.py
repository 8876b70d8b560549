"""A policy of one's own: attention over the parts of an observation, as a torch module that `hotloop train` can use.

    hotloop train acrobot policy.module=examples.attention_policy:Attention train.learner=auto

Run as a script it trains a little and plays. It needs `pip install 'hotloop[torch]'`.
"""

import torch
from torch import Tensor, nn

import hotloop
from hotloop.policies.torch.modules import Spaces


class Attention(nn.Module):
    """Every number of an observation is a token: its value times a learned direction, plus where it stands."""

    def __init__(self, spaces: Spaces, width: int = 32, heads: int = 2) -> None:
        super().__init__()
        (tokens,) = spaces.shape
        self.direction = nn.Parameter(torch.randn(tokens, width))
        self.place = nn.Parameter(torch.randn(tokens, width))
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        self.read = nn.Sequential(nn.Linear(tokens * width, 64), nn.Tanh())
        self.policy = nn.Linear(64, spaces.outputs)
        self.value = nn.Linear(64, 1)
        nn.init.normal_(self.policy.weight, std=0.01)

    def initial_memory(self, rows: int) -> None:
        """It remembers nothing; with memory this would give a tensor `[rows, numbers]`."""

    def forward(self, obs: Tensor, memory: None) -> tuple[Tensor, Tensor, None]:
        """Outputs, values and memory of a batch of observations."""
        tokens = obs.unsqueeze(-1) * self.direction + self.place
        attended, _ = self.attend(tokens, tokens, tokens, need_weights=False)
        features = self.read((tokens + attended).flatten(1))
        return self.policy(features), self.value(features).squeeze(-1), memory


def main() -> None:
    """Trains a little, and plays."""
    run = hotloop.train(
        "cartpole",
        steps=60_000,
        seed=0,
        config={"policy.module": "examples.attention_policy:Attention", "policy.module_options": {"width": 16}},
    )
    agent = hotloop.load(run.path)
    print(f"mean return {run.return_mean:.0f} after {run.steps} steps; it takes {agent.act([0.0, 0.0, 0.1, 0.0])}")


if __name__ == "__main__":
    main()
