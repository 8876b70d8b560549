"""How well a table does: exactly where the env can be enumerated, by fresh episodes elsewhere.

The return is undiscounted. `optimal_states` is the share of the states one can come to in which the table's best action
is one of the truly best, by value iteration at the discount that is learned with; `worst_reward` the lowest reward
of any outcome that this policy can meet at all: above -1 in tictactoe means that it never loses.
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
    """The options under which the env is enumerated to evaluate a table; `None` if it cannot be."""
    if env == "tictactoe" and options.get("opponent") == "self":
        # One table plays both sides; what matters is how it fares against perfect play.
        return {**options, "opponent": "perfect"}
    if env == "taxi" and options.get("fickle"):
        return None
    if ":" in env or _core.transitions(env, options) is None:
        return None
    return options


def evaluate_exactly(table: _core.QTable, env: str, options: dict[str, Any], gamma: float) -> Evaluation:
    """The expected return of always taking the best known action."""
    truth = Truth.of(env, options, gamma)
    policy = greedy(table, truth.legal)
    told = _core.policy_earnings(env, options, policy.astype(np.uint32), truth.limit)
    chosen = truth.values[np.arange(len(policy)), policy]
    good = chosen >= truth.values.max(axis=1) - _EQUAL
    metrics = {
        "success": told["success"],
        "optimal_states": float(good[truth.reachable].mean()),
        "worst_reward": told["worst"] + 0.0,
    }
    mean = told["mean"]
    return Evaluation(mean, mean, mean, math.nan, 0, told["length"], metrics, exact=True)


def greedy(table: _core.QTable, legal: NDArray[np.int8] | None) -> NDArray[np.int64]:
    """The best known action of every state; with a mask, of the legal ones."""
    states = table.states if legal is None else len(legal)
    return table.act(np.arange(states), legal)


class Truth:
    """What is known of a task without playing it."""

    def __init__(self, env: str, options: dict[str, Any], gamma: float) -> None:
        told = _core.transitions(env, options)
        assert told is not None
        shape = told["states"], told["actions"]
        legal = np.ones(shape, np.int8) if told["legal"] is None else told["legal"].reshape(shape).astype(np.int8)
        self.legal: NDArray[np.int8] = legal
        self.values: NDArray[np.float64] = _core.best_values(env, options, gamma).reshape(shape)
        self.reachable: NDArray[np.bool_] = _core.reachable_states(env, options)
        entry = next(entry for entry in _core.list_envs() if entry["name"] == env)
        default = next(option["default"] for option in entry["options"] if option["name"] == "max_steps")
        self.limit: int = options.get("max_steps", default) or _LONGEST

    @classmethod
    def of(cls, env: str, options: dict[str, Any], gamma: float) -> Truth:
        """Found once for each task."""
        return _truth(env, tuple(sorted(options.items())), gamma)


@lru_cache(maxsize=8)
def _truth(env: str, options: tuple[tuple[str, Any], ...], gamma: float) -> Truth:
    return Truth(env, dict(options), gamma)
