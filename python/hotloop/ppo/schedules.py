"""Hyperparameter schedules: the settings of each iteration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hotloop.config import Config

# A schedule has this many equal stages, so that one native call can run many iterations.
STAGES: Final = 256


class Schedules:
    """The settings of a run's iterations.

    A linear schedule decreases in stages of a whole number of iterations. An iteration's settings depend on its index
    alone, never on how iterations were grouped or interrupted.
    """

    def __init__(self, config: Config, rows: int) -> None:
        ppo = config.ppo
        self._ppo = ppo
        self._fixed = {
            "epochs": ppo.epochs,
            "minibatch_size": ppo.minibatch_size,
            "gamma": ppo.gamma,
            "gae_lambda": ppo.gae_lambda,
            "clip": ppo.clip,
            "value_clip": ppo.value_clip,
            "value_weight": ppo.value_weight,
            "max_gradient_norm": ppo.max_gradient_norm,
            "normalize_advantages": ppo.normalize_advantages,
            "target_kl": ppo.target_kl,
            "beta1": ppo.beta1,
            "beta2": ppo.beta2,
            "epsilon": ppo.epsilon,
            "reward_scale": ppo.reward_scale,
            "reward_clip": math.inf if ppo.reward_clip is None else ppo.reward_clip,
        }
        self._stage = 0
        if "linear" in (ppo.learning_rate_schedule, ppo.entropy_schedule):
            assert config.train.steps is not None
            self._total = math.ceil(config.train.steps / (rows * ppo.horizon))
            self._stage = max(1, self._total // STAGES)

    def at(self, iteration: int, learning_rate_scale: float = 1.0) -> dict[str, Any]:
        """Return the settings of an iteration, as learners take them."""
        remaining = self._remaining(iteration)
        rate = self._ppo.learning_rate * (remaining if self._ppo.learning_rate_schedule == "linear" else 1.0)
        bonus = self._ppo.entropy * (remaining if self._ppo.entropy_schedule == "linear" else 1.0)
        return {
            **self._fixed,
            "learning_rate": rate * learning_rate_scale,
            "entropy": bonus,
            "iteration": iteration,
        }

    def next_change(self, iteration: int) -> int | None:
        """Return the next iteration whose settings differ; `None` if there is none."""
        if not self._stage:
            return None
        return (iteration // self._stage + 1) * self._stage

    def _remaining(self, iteration: int) -> float:
        """Return the remaining fraction of the schedule at the start of the iteration's stage."""
        if not self._stage:
            return 1.0
        # Turn-based envs make fewer steps per iteration than planned; beyond the plan the last stage's settings hold.
        begun = min(iteration // self._stage * self._stage, (self._total - 1) // self._stage * self._stage)
        return 1.0 - begun / self._total
