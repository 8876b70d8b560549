"""A policy judged by its env's suite: every cell evaluated, and the sum over all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.training.evaluation import Evaluation, evaluate

if TYPE_CHECKING:
    from hotloop.envs.suites import Cell, Suite
    from hotloop.policies.policy import Policy


@dataclass(frozen=True)
class SuiteResult:
    """A suite's cells with their evaluations."""

    suite: Suite
    cells: tuple[tuple[Cell, Evaluation], ...]

    @property
    def total(self) -> tuple[float, float, float]:
        """The sum of the cells' means, and where the true one lies with 95 % confidence."""
        total = math.fsum(found.mean for _, found in self.cells)
        margin = math.sqrt(math.fsum(((found.high - found.low) / 2) ** 2 for _, found in self.cells))
        return total, total - margin, total + margin

    @property
    def episodes(self) -> int:
        """How many episodes were played in all."""
        return sum(found.episodes for _, found in self.cells)


def evaluate_suite(agent: Policy, suite: Suite, *, episodes: int, seed: int, deterministic: bool = True) -> SuiteResult:
    """Plays that many episodes of every cell; what a cell does not say is as the policy was trained."""
    return SuiteResult(
        suite,
        tuple(
            (
                cell,
                evaluate(
                    agent.learner,
                    agent.env,
                    {**agent.options, **cell.options},
                    episodes=episodes,
                    seed=seed,
                    deterministic=deterministic,
                    action_repeat=agent.action_repeat,
                ),
            )
            for cell in suite.cells
        ),
    )
