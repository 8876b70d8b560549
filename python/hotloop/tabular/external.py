"""Gymnasium envs: stepped in Python, while a native table learns from each transition."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop import _core
from hotloop.config.tabular.spaces import make_gymnasium
from hotloop.errors import TrainingError
from hotloop.policies.evaluation import Evaluation

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.config import Config
    from hotloop.config.tabular.spaces import Spaces


class ExternalEngine:
    """An engine that steps one env in Python."""

    about = "native table, the env is stepped in Python"
    notes: tuple[str, ...] = (
        "a Gymnasium env is stepped in Python, a hundred times slower than a native one; 'hotloop envs' lists those",
    )

    def __init__(self, config: Config, spaces: Spaces, settings: dict[str, Any]) -> None:
        self._config = config
        self._actions = spaces.actions
        self._env = make_gymnasium(config.env.name, config.env.options)
        self._learner = _core.ExternalTabularLearner(settings, spaces.states, spaces.actions)
        self.steps_per_iteration = config.tabular.iteration
        self.plays: Callable[[int, int], Evaluation] | None = self._play
        self._episode: int = settings["attempt"] * 2**32
        self._seed = config.train.seed
        self._action: int | None = None
        self._return, self._length = 0.0, 0
        self._done: list[tuple[float, int]] = []

    @property
    def rows(self) -> int:
        """Number of states with a row."""
        return self._learner.rows

    @property
    def memory(self) -> int:
        """Bytes of the table."""
        return self._learner.bytes

    def advance(self, iterations: int, seconds: float) -> tuple[int, int]:
        """Run iterations."""
        start = time.perf_counter()
        made = 0
        while made < iterations and (made == 0 or time.perf_counter() - start < seconds):
            for _ in range(self.steps_per_iteration):
                self._step()
            made += 1
        return made, made * self.steps_per_iteration

    def _begin(self) -> int:
        # Seeds depend on the episode's index, so an interrupted run plays the same episodes.
        seed = int(np.random.SeedSequence([self._seed, self._episode]).generate_state(1)[0])
        self._episode += 1
        state, info = self._env.reset(seed=seed)
        self._return, self._length = 0.0, 0
        try:
            return self._learner.begin(int(state), self._legal(info))
        except (OverflowError, RuntimeError) as error:
            raise self._env_error(error) from None

    def _step(self) -> None:
        action = self._begin() if self._action is None else self._action
        state, reward, terminated, truncated, info = self._env.step(action)
        self._return += float(reward)
        self._length += 1
        try:
            self._action = self._learner.step(float(reward), bool(terminated), int(state), self._legal(info))
        except (OverflowError, RuntimeError) as error:
            raise self._env_error(error) from None
        if terminated or truncated:
            self._done.append((self._return, self._length))
            self._action = None

    def _env_error(self, error: Exception) -> TrainingError:
        return TrainingError(f"{self._config.env.name} broke its interface: {error}")

    def _legal(self, info: dict[str, Any]) -> int:
        mask = info.get("action_mask")
        if mask is None:
            return (1 << self._actions) - 1
        bits = sum(1 << int(action) for action in np.flatnonzero(mask))
        # A terminal state may allow no action; none is taken there.
        return bits or (1 << self._actions) - 1

    def tally(self) -> Any:
        """Return the statistics since the last call."""
        statistics = self._learner.take_statistics()
        returns = np.array([total for total, _ in self._done])
        lengths = np.array([length for _, length in self._done], np.int64)
        self._done = []
        return {
            **statistics,
            "count": len(returns),
            "length": int(lengths.sum()),
            "total": float(returns.sum()),
            "square": float((returns**2).sum()),
            "min": float(returns.min(initial=np.inf)),
            "max": float(returns.max(initial=-np.inf)),
            "extra": [float(returns.sum())],
            "returns": returns,
            "lengths": lengths,
        }

    def _play(self, episodes: int, seed: int) -> Evaluation:
        env, table = make_gymnasium(self._config.env.name, self._config.env.options), self.table()
        returns, lengths = [], []
        seeds = np.random.SeedSequence(seed).generate_state(episodes)
        for index in range(episodes):
            state, info = env.reset(seed=int(seeds[index]))
            total, length, over = 0.0, 0, False
            while not over and length < 10_000:
                mask = info.get("action_mask")
                allowed = None if mask is None else np.asarray(mask, np.int8).reshape(1, -1)
                action = table.act(np.array([state], np.int64), allowed)[0]
                state, reward, terminated, truncated, info = env.step(int(action))
                total, length, over = total + float(reward), length + 1, terminated or truncated
            returns.append(total)
            lengths.append(length)
        env.close()
        return Evaluation.of(np.array(returns), np.array(lengths), {})

    def table(self) -> _core.QTable:
        """Return a copy of the table."""
        return self._learner.table()

    def set_table(self, table: _core.QTable) -> None:
        """Replace the table."""
        self._learner.set_table(table)

    def snapshot(self) -> bytes:
        """Return the learner's state; the env starts a new episode on resume."""
        episode: bytes = self._episode.to_bytes(8, "little")
        return episode + self._learner.snapshot()

    def restore(self, state: bytes) -> None:
        """Restore a snapshot."""
        self._episode = int.from_bytes(state[:8], "little")
        self._learner.restore(state[8:])
        self._action = None

    def close(self) -> None:
        """Close the env."""
        self._env.close()
