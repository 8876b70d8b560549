"""Stable-Baselines3's PPO on Gymnasium's CartPole, as its users run it: Python envs in one process, its own loop."""

import json
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from hotloop.bench.measure import Contender
from hotloop.bench.peers import Entry, Peer
from hotloop.bench.peers.gymnasium import IDS, MOST_PYTHON_ENVS
from hotloop.bench.ppo import PpoCase, use_torch_threads


def make(case: PpoCase, num_envs: int) -> Any:
    """Return a model for this many envs."""
    from stable_baselines3 import PPO

    sizes = list(case.hidden)
    return built(PPO, "MlpPolicy", case, num_envs, {"net_arch": {"pi": sizes, "vf": sizes}})


def built(algorithm: Any, policy: str, case: PpoCase, num_envs: int, policy_kwargs: dict[str, Any]) -> Any:
    """Return an SB3 model with a case's settings."""
    from stable_baselines3.common.env_util import make_vec_env

    return algorithm(
        policy,
        make_vec_env(IDS[case.env], num_envs),
        n_steps=case.horizon,
        batch_size=num_envs * case.horizon // case.minibatches,
        n_epochs=case.epochs,
        learning_rate=case.learning_rate,
        gamma=case.gamma,
        gae_lambda=case.gae_lambda,
        clip_range=case.clip,
        ent_coef=case.entropy,
        max_grad_norm=case.max_gradient_norm,
        policy_kwargs=policy_kwargs,
        device="cpu",
        seed=0,
    )


def learning(
    name: str, make: Callable[[PpoCase, int], Any], case: PpoCase, memory: str, stack: ExitStack
) -> list[Entry]:
    """Return a contender that trains an SB3 model, if it supports the case's env and memory."""
    if case.env not in IDS or case.memory != memory:
        return []
    num_envs = min(case.num_envs, 2 * MOST_PYTHON_ENVS)
    with warnings.catch_warnings():
        # It warns of minibatches that do not divide the rollout.
        warnings.simplefilter("ignore")
        model = make(case, num_envs)
    stack.callback(model.env.close)
    steps = num_envs * case.horizon

    def iterate(_: object) -> None:
        use_torch_threads(steps // case.minibatches)
        model.learn(steps, reset_num_timesteps=False)

    return [Entry(Contender(name, iterate, [None], work_per_pass=steps), num_envs)]


def _enter(case: PpoCase, stack: ExitStack) -> list[Entry]:
    return learning("SB3 PPO", make, case, "none", stack)


def solve(seed: int, limit: int = 100_000) -> int | None:
    """Train with the zoo's settings until the last 100 episodes have a mean of 475; return the number of steps.

    The zoo's schedules end at `limit` steps: a model that is not there by then has not solved it.
    """
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class UntilSolved(BaseCallback):
        solved = False

        def _on_step(self) -> bool:
            last = self.model.ep_info_buffer or ()
            self.solved = len(last) == 100 and sum(episode["r"] for episode in last) >= 475 * 100
            return not self.solved

    use_torch_threads(256)
    envs = make_vec_env("CartPole-v1", 8, seed=seed)
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        learning_rate=lambda left: 1e-3 * left,
        clip_range=lambda left: 0.2 * left,
        gamma=0.98,
        gae_lambda=0.8,
        ent_coef=0.0,
        device="cpu",
        seed=seed,
    )
    watch = UntilSolved()
    model.learn(limit, callback=watch)
    return int(model.num_timesteps) if watch.solved else None


PEER = Peer(
    "sb3", "SB3 PPO", f"at most {2 * MOST_PYTHON_ENVS} Gymnasium envs in one process", "stable_baselines3", _enter
)

if __name__ == "__main__":
    print(json.dumps(solve(seed=int(sys.argv[1]))))
