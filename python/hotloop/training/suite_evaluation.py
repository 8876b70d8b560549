"""Evaluation of a policy on its env's suite: every cell with random keys of its own, and the sum over all cells."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.policies.evaluation import Evaluation
from hotloop.training.evaluation import evaluate

if TYPE_CHECKING:
    from hotloop.envs.suites import Cell, Suite
    from hotloop.policies.policy import Policy


@dataclass(frozen=True)
class SuiteResult:
    """The cells of a suite with their evaluations."""

    suite: Suite
    cells: tuple[tuple[Cell, Evaluation], ...]

    @property
    def total(self) -> tuple[float, float, float]:
        """The sum of the cells' means and its 95 % confidence interval; cells are independent."""
        total = math.fsum(found.mean for _, found in self.cells)
        margin = math.sqrt(math.fsum(((found.high - found.low) / 2) ** 2 for _, found in self.cells))
        return total, total - margin, total + margin

    @property
    def episodes(self) -> int:
        """Number of episodes over all cells."""
        return sum(found.episodes for _, found in self.cells)


def cell_seed(seed: int, cell: Cell) -> int:
    """Return the seed of a cell: with a common one, episodes of different cells would be correlated."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{cell}".encode(), digest_size=8).digest(), "little")


def evaluate_suite(agent: Policy, suite: Suite, *, episodes: int, seed: int, deterministic: bool = True) -> SuiteResult:
    """Play that many episodes of every cell; options that a cell does not set are as the policy was trained."""
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
                    seed=cell_seed(seed, cell),
                    deterministic=deterministic,
                    action_repeat=agent.action_repeat,
                ),
            )
            for cell in suite.cells
        ),
    )
