"""Evaluation of tables: exact where the env can be enumerated, on fresh episodes elsewhere.

The return is undiscounted. `optimal_states` is the share of reachable states in which the greedy action is
optimal, by value iteration at the training discount; `worst_reward` is the lowest reward of any outcome with a positive
probability under the greedy policy: above -1 in tictactoe means that it never loses.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop import _core
from hotloop.policies.evaluation import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

# As in sampled evaluations: an episode that is not over by then counts as it stands.
_LONGEST: Final = 10_000
# Actions whose values differ by less are equally good.
_EQUAL: Final = 1e-9


def exact_options(env: str, options: dict[str, Any]) -> dict[str, Any] | None:
    """Return the options with which the env is enumerated to evaluate a table; `None` if it cannot be."""
    if env == "tictactoe" and options.get("opponent") == "self":
        # One table plays both sides; it is evaluated against perfect play.
        return {**options, "opponent": "perfect"}
    if env == "taxi" and options.get("fickle"):
        return None
    if ":" in env or _core.transitions(env, options) is None:
        return None
    return options


def evaluate_exactly(table: _core.QTable, env: str, options: dict[str, Any], gamma: float) -> Evaluation:
    """Return the exact evaluation of the greedy policy."""
    truth = Truth.of(env, options, gamma)
    policy = greedy(table, truth.legal)
    result = _core.evaluate_policy(env, options, policy.astype(np.uint32), truth.limit)
    chosen = truth.values[np.arange(len(policy)), policy]
    good = chosen >= truth.values.max(axis=1) - _EQUAL
    metrics = {
        "success": result["success"],
        "optimal_states": float(good[truth.reachable].mean()),
        "worst_reward": result["worst"] + 0.0,
    }
    mean = result["mean"]
    return Evaluation(mean, mean, mean, math.nan, 0, result["length"], metrics, exact=True)


def greedy(table: _core.QTable, legal: NDArray[np.int8] | None) -> NDArray[np.int64]:
    """Return the greedy action of every state, among the legal ones if there is a mask."""
    states = table.states if legal is None else len(legal)
    return table.act(np.arange(states), legal)


class Truth:
    """Exact values and reachable states of a task."""

    def __init__(self, env: str, options: dict[str, Any], gamma: float) -> None:
        task = _core.transitions(env, options)
        assert task is not None
        shape = task["states"], task["actions"]
        legal = np.ones(shape, np.int8) if task["legal"] is None else task["legal"].reshape(shape).astype(np.int8)
        self.legal: NDArray[np.int8] = legal
        self.values: NDArray[np.float64] = _core.optimal_values(env, options, gamma).reshape(shape)
        self.reachable: NDArray[np.bool_] = _core.reachable_states(env, options)
        entry = next(entry for entry in _core.list_envs() if entry["name"] == env)
        default = next(option["default"] for option in entry["options"] if option["name"] == "max_steps")
        self.limit: int = options.get("max_steps", default) or _LONGEST

    @classmethod
    def of(cls, env: str, options: dict[str, Any], gamma: float) -> Truth:
        """Return the cached result for a task."""
        return _truth(env, tuple(sorted(options.items())), gamma)


@lru_cache(maxsize=8)
def _truth(env: str, options: tuple[tuple[str, Any], ...], gamma: float) -> Truth:
    return Truth(env, dict(options), gamma)
