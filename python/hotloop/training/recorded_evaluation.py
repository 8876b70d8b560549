"""Evaluations that `hotloop eval` makes and records, and their repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotloop.policies.evaluation import Evaluation
    from hotloop.policies.policy import Policy


def repeat_evaluation(policy: Policy, event: dict[str, Any]) -> Evaluation | None:
    """Return the result of playing a recorded evaluation again; `None` if it does not say which keys it used."""
    from hotloop.training.evaluation import evaluate

    how, claimed = event["how"], event["evaluation"]
    if claimed.get("exact"):
        return evaluate_table(policy, how["options"])
    if "key" not in how:
        return None
    return evaluate(
        policy.learner,
        policy.env,
        how["options"],
        episodes=int(claimed["episodes"]),
        seed=int(how["key"]),
        deterministic=bool(how["deterministic"]),
        action_repeat=policy.action_repeat,
    )


def evaluate_table(policy: Policy, options: dict[str, Any]) -> Evaluation | None:
    """Return the exact expected return of a table in an env that can be enumerated; `None` for anything else."""
    from hotloop.tabular.evaluation import evaluate_exactly, exact_options
    from hotloop.tabular.player import TablePlayer

    if not isinstance(policy.learner, TablePlayer) or policy.gamma is None:
        return None
    enumerated = exact_options(policy.env, options)
    if enumerated is None:
        return None
    return evaluate_exactly(policy.learner.table, policy.env, enumerated, policy.gamma)
