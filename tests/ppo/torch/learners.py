"""Torch learners for tests."""

from typing import Any

from hotloop import _core
from hotloop.config import TorchConfig
from hotloop.envs.spec import native_spec
from hotloop.policies.spec import policy_spec_from_json
from hotloop.ppo.torch.learner import TorchLearner

POLICY: dict[str, Any] = {"hidden": [64, 64], "activation": "tanh", "shared": True, "embedding": 0, "log_std": 0.0}


def torch_learner(
    env: str,
    options: dict[str, Any],
    policy: dict[str, Any],
    envs: int,
    horizon: int,
    *,
    config: dict[str, Any] | None = None,
    seed: int = 0,
    **keywords: Any,
) -> TorchLearner:
    """A learner on one thread, for so many envs."""
    spec = native_spec(env, options)
    if "module" not in policy:
        policy = {**POLICY, **policy}
    return TorchLearner(
        spec,
        policy_spec_from_json(policy),
        TorchConfig(device="cpu", num_threads=1, **(config or {})),
        rows=envs * spec.seats,
        horizon=horizon,
        seed=seed,
        num_threads=1,
        **keywords,
    )


def pool_of(env: str, options: dict[str, Any], envs: int, seed: int = 0, groups: int = 1) -> _core.Pool:
    """Envs that a learner can collect from."""
    pool = _core.Pool(env, envs, num_threads=1, num_groups=groups, options=options, autoreset="same_step")
    pool.seed(seed)
    pool.reset()
    return pool
