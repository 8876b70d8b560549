"""Benchmark cases of PPO: the work of one iteration, specified so that peers can do the same."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PpoCase:
    """Number of envs, horizon, epochs and policy of one PPO case."""

    env: str
    num_envs: int
    horizon: int
    epochs: int
    minibatches: int
    hidden: tuple[int, ...] = (64, 64)
    separate: bool = False
    """Whether policy and value have separate trunks."""
    memory: str = "none"
    """Recurrent layer between the dense layers and the outputs: none, lstm or gru."""
    memory_size: int = 128
    learning_rate: float = 1e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    max_gradient_norm: float = 0.5
    reward_scale: float = 1.0

    @property
    def steps(self) -> int:
        """Steps of one iteration."""
        return self.num_envs * self.horizon

    @property
    def minibatch_size(self) -> int:
        """Steps per gradient step."""
        return self.steps // self.minibatches

    def __str__(self) -> str:
        memory = "" if self.memory == "none" else f" {self.memory} {self.memory_size}"
        return f"{self.env} {self.num_envs}x{self.horizon} {self.epochs}x{self.minibatches}{memory}"


# Settings that solve CartPole: small batches, many updates.
SOLVE = PpoCase(
    "cartpole",
    num_envs=32,
    horizon=32,
    epochs=1,
    minibatches=4,
    gamma=0.995,
    gae_lambda=0.98,
    entropy=0.003,
    max_gradient_norm=1.0,
    reward_scale=0.05,
)


def usable_cores() -> int:
    """Return the cores available to this process; every contender gets as many threads."""
    from hotloop import _core

    return _core.usable_cores()


def use_torch_threads(minibatch_size: int) -> None:
    """Give PyTorch all cores, except for batches too small to benefit."""
    import torch

    torch.set_num_threads(usable_cores() if minibatch_size >= 4096 else 1)
