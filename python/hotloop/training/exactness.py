"""Which runs are a function of version, config and seed, and can be trained again to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.envs.registry import is_native

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def inexact_reason(config: Mapping[str, Mapping[str, Any]], learners: Iterable[str]) -> str | None:
    """Return why a run cannot be trained again to the bit; `None` if it can.

    Args:
        config: The run's config, by section.
        learners: The learners that it has recorded: `native (CPU)`; version 0.1.0 wrote `native: WHY`.
    """
    names = {learner.partition(" ")[0].rstrip(":") for learner in learners if learner}
    if config["train"].get("algorithm", "ppo") == "ppo":
        if not names <= {"native"}:
            return "the torch learner repeats its bits under equal conditions only"
    elif config["tabular"]["runtime"] in ("shared", "mpi") and config["runner"]["num_threads"] != 1:
        return "threads and ranks that share a table do not repeat exactly"
    if not is_native(config["env"]["name"]):
        return "Python envs are not repeated exactly"
    return None
