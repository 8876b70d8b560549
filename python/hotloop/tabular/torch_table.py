"""A table on a GPU: many native envs are stepped at once, and every batch of steps is one update on the device.

Transitions of a batch with the same state and action update its value by the mean of their TD errors.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop import _core
from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from hotloop.config import Config
    from hotloop.config.tabular.spaces import Spaces
    from hotloop.policies.evaluation import Evaluation


def choose_device(wanted: str) -> torch.device:
    """Return the device that a config names; `auto` is the first GPU."""
    try:
        import torch
    except ImportError:
        raise ConfigError("tabular.table=torch needs PyTorch: pip install torch, or set tabular.table=dense") from None
    if wanted == "auto" and not torch.cuda.is_available():
        raise ConfigError(
            "tabular.table=torch found no GPU: set tabular.table=dense, which is faster on a CPU, "
            "or tabular.device=cpu to run it there all the same"
        )
    try:
        return torch.empty(0, device="cuda" if wanted == "auto" else wanted).device
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"tabular.device is {wanted!r}: {error}") from None


class TorchEngine:
    """A PyTorch table and a pool of native envs."""

    def __init__(self, config: Config, spaces: Spaces) -> None:
        import torch

        self._torch = torch
        self._config = config
        self._device = choose_device(config.tabular.device)
        self._envs = config.runner.num_envs
        planes = 2 if config.train.algorithm == "double-q-learning" else 1
        shape = (planes, spaces.states, spaces.actions)
        self._values = torch.full(shape, config.tabular.initial_value, device=self._device)
        self._pool = _core.Pool(
            config.env.name,
            self._envs,
            num_threads=config.runner.num_threads,
            options=config.env.options,
            autoreset="same_step",
        )
        if spaces.spec.seats != 1:
            raise ConfigError("tabular.table=torch takes envs with one agent: set tabular.table=dense for self-play")
        self._pool.seed(config.train.seed)
        self._observation = self._pool.reset()
        self._random = torch.Generator(self._device).manual_seed(config.train.seed % 2**63)
        self._action = self._decide(*self._states_and_masks(self._observation), 0)
        self._made = 0
        self._error = torch.zeros((), device=self._device, dtype=torch.float64)
        self.about = f"PyTorch on {self._device}, {self._envs} envs a batch"
        self.notes: tuple[str, ...] = ()
        self.steps_per_iteration = max(1, config.tabular.iteration // self._envs) * self._envs
        self.plays: Callable[[int, int], Evaluation] | None = None

    @property
    def rows(self) -> int:
        """Number of rows: one per state."""
        return int(self._values.shape[1])

    @property
    def memory(self) -> int:
        """Bytes on the device."""
        return self._values.numel() * self._values.element_size()

    def advance(self, iterations: int, seconds: float) -> tuple[int, int]:
        """Run iterations."""
        start = time.perf_counter()
        made = 0
        while made < iterations and (made == 0 or time.perf_counter() - start < seconds):
            for _ in range(self.steps_per_iteration // self._envs):
                self._step()
            made += 1
        return made, made * self.steps_per_iteration

    def _states_and_masks(self, observation: Any) -> tuple[torch.Tensor, torch.Tensor]:
        torch = self._torch
        obs, info = observation
        states = torch.from_numpy(np.ascontiguousarray(obs, np.int64)).to(self._device)
        mask = info.get("action_mask")
        if mask is None:
            return states, torch.ones((len(states), self._values.shape[2]), dtype=torch.bool, device=self._device)
        return states, torch.from_numpy(np.asarray(mask, np.bool_)).to(self._device)

    def _policy(self, states: torch.Tensor, legal: torch.Tensor, epsilon: float) -> torch.Tensor:
        """Return the probabilities of all actions."""
        values = self._values[:, states].sum(0).masked_fill(~legal, -float("inf"))
        best = (values == values.max(1, keepdim=True).values) & legal
        return (1 - epsilon) * best / best.sum(1, keepdim=True) + epsilon * legal / legal.sum(1, keepdim=True)

    def _decide(self, states: torch.Tensor, legal: torch.Tensor, step: int) -> torch.Tensor:
        probabilities = self._policy(states, legal, self._at("exploration", step))
        return self._torch.multinomial(probabilities, 1, generator=self._random)[:, 0]

    def _at(self, key: str, step: int) -> float:
        tabular = self._config.tabular
        start, floor = getattr(tabular, key), getattr(tabular, f"{key}_floor")
        scale = getattr(tabular, f"{key}_scale") or self._config.train.steps or 1
        match getattr(tabular, f"{key}_schedule"):
            case "linear":
                return float(max(floor, start + (floor - start) * step / scale))
            case "exponential":
                return float(max(floor, start * 0.5 ** (step / scale)))
        return float(start)

    def _step(self) -> None:
        torch, tabular = self._torch, self._config.tabular
        states, _ = self._states_and_masks(self._observation)
        action = self._action
        obs, reward, terminated, truncated, info = self._pool.step(action.cpu().numpy().astype(np.int32))
        self._observation = obs, info
        ended = terminated | truncated
        after = obs.copy()
        allowed = info.get("action_mask")
        found = self._pool.finals(range(self._pool.num_groups)) if ended.any() else None
        if found is not None:
            after[found[0]] = found[1]
        next_states, next_legal = self._states_and_masks((obs, info))
        self._action = self._decide(next_states, next_legal, self._made)
        # Truncated episodes are bootstrapped from their last state, with all actions allowed.
        reached, legal = self._states_and_masks((after, {} if allowed is None else {"action_mask": allowed}))
        legal = legal | torch.from_numpy(truncated).to(self._device)[:, None]
        next_values = self._next_values(reached, legal, self._action)
        alive = torch.from_numpy(~terminated).to(self._device)
        rewards = torch.from_numpy(reward).to(self._device)
        target = rewards + tabular.gamma * torch.where(alive, next_values[0], torch.zeros_like(rewards))
        flat = (next_values[1] * self._values.shape[1] + states) * self._values.shape[2] + action
        values = self._values.view(-1)
        error = target - values[flat]
        size = values.numel()
        count = torch.zeros(size, device=self._device).scatter_add_(0, flat, torch.ones_like(error))
        total = torch.zeros(size, device=self._device).scatter_add_(0, flat, error)
        values += self._at("learning_rate", self._made) * total / count.clamp(min=1)
        self._error += error.abs().sum()
        self._made += self._envs

    def _next_values(
        self, states: torch.Tensor, legal: torch.Tensor, action: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the values of the next states, and the plane that each updates."""
        torch = self._torch
        first = torch.zeros_like(states)
        values = self._values[:, states].masked_fill(~legal, -float("inf"))
        match self._config.train.algorithm:
            case "sarsa":
                return values[0].gather(1, action[:, None])[:, 0], first
            case "expected-sarsa":
                probabilities = self._policy(states, legal, self._at("exploration", self._made))
                return (probabilities * self._values[0, states]).sum(1), first
            case "double-q-learning":
                plane = torch.randint(0, 2, states.shape, generator=self._random, device=self._device)
                rows = torch.arange(len(states), device=self._device)
                best = values[plane, rows].argmax(1)
                return values[1 - plane, rows, best], plane
        return values[0].max(1).values, first

    def tally(self) -> Any:
        """Return the statistics since the last call."""
        statistics: dict[str, Any] = dict(self._pool.episodes())
        error = float(self._error)
        self._error.zero_()
        return {**statistics, "error": error, "updates": max(1, statistics["length"])}

    def table(self) -> _core.QTable:
        """Return a copy of the table in main memory."""
        _, states, actions = self._values.shape
        values = self._values.permute(1, 0, 2).contiguous().cpu().numpy().reshape(-1)
        return _core.QTable(states, actions, self._config.tabular.initial_value, {"values": values})

    def set_table(self, table: _core.QTable) -> None:
        """Replace the table."""
        planes, states, actions = self._values.shape
        values = table.converted(states, False).arrays()["values"].reshape(states, -1, actions)
        if values.shape != (states, planes, actions):
            raise ValueError(f"the table has shape {values.shape}: expected {(states, planes, actions)}")
        self._values = self._torch.from_numpy(values).permute(1, 0, 2).contiguous().to(self._device)

    def snapshot(self) -> bytes:
        """Return the envs, the random state and the pending actions."""
        state = self._random.get_state().cpu().numpy().tobytes()
        actions = self._action.cpu().numpy().tobytes()
        head = np.array([self._made, len(state), len(actions)], np.int64).tobytes()
        return head + state + actions + self._pool.snapshot()

    def restore(self, state: bytes) -> None:
        """Restore a snapshot."""
        torch = self._torch
        made, random, actions = np.frombuffer(state[:24], np.int64).tolist()
        self._made = made
        self._random.set_state(torch.frombuffer(bytearray(state[24 : 24 + random]), dtype=torch.uint8))
        chosen = np.frombuffer(state[24 + random : 24 + random + actions], np.int64)
        self._action = torch.from_numpy(chosen.copy()).to(self._device)
        self._observation = self._pool.restore(state[24 + random + actions :])

    def close(self) -> None:
        """Stop the envs' threads."""
        self._pool.close()
